package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/plan"
	"github.com/spf13/cobra"
)

type resumeOptions struct {
	applyOptions
	list, forget bool
}

func newResume(h Host) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [FILE|REFERENCE]",
		Short: "Finish a publish that was interrupted",
		Long: `Finish a publish that was killed or cut off. Nothing is sent again that is there,
and nothing is written when its tags have moved since: then the differences are
named, and the exit code is 4. The same command again does the same. FILE is one
of those that --list names, oldest first, or its name alone; a REFERENCE is one of
its targets. Without either there must be only one. What nobody takes up within a
week is forgotten, and at once with --forget.`,
		Args: atMost(1, "one file of --list or one target"),
		RunE: func(cmd *cobra.Command, args []string) error { return runResume(cmd.Context(), h, o, args) },
	}
	cmd.Flags().BoolVar(&o.list, "list", false, "List what was interrupted, and publish nothing")
	cmd.Flags().BoolVar(&o.forget, "forget", false, "Forget the one that is named, and publish nothing; what was sent stays")
	cmd.MarkFlagsMutuallyExclusive("list", "forget")
	o.addTo(cmd)
	return cmd
}

func atMost(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("%s wants %s at the most, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

func runResume(ctx context.Context, h Host, o resumeOptions, args []string) error {
	if o.list {
		m := o.library(h, warnings(h))
		defer m.Close()
		all, err := m.Unfinished()
		if o.json {
			return errors.Join(render.JSON(h.Out, render.NewUnfinished(all)), err)
		}
		return errors.Join(render.Unfinished(h.Out, all), err)
	}
	if o.forget {
		return o.drop(h, args)
	}
	u, unreadable, err := o.choose(h, args)
	if u != nil && err == nil {
		err = o.run(ctx, h, u.Plan)
	}
	if is[*apply.WorldError](err) {
		err = &staleError{err}
	}
	return errors.Join(err, unreadable)
}

// staleError is an interrupted publish whose tags have moved since.
type staleError struct{ err error }

func (e *staleError) Error() string { return e.err.Error() }
func (e *staleError) Unwrap() error { return e.err }

// choose is the publish to finish, nil when there is none. What cannot be read
// is said when the others are done with.
func (o *resumeOptions) choose(h Host, args []string) (u *manifold.Unfinished, unreadable, err error) {
	if len(args) == 1 {
		path, err := o.find(h, args[0])
		if err != nil {
			return nil, nil, err
		}
		u, err := manifold.ReadUnfinished(path)
		return &u, nil, notReadable(err)
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	all, unreadable := m.Unfinished()
	switch {
	case len(all) == 0 && unreadable == nil:
		_, err = fmt.Fprintln(h.Err, "nothing was interrupted")
	case len(all) > 1:
		_ = render.Unfinished(h.Err, all)
		err = usage("%d publishes were interrupted; name one", len(all))
	case len(all) == 1:
		u = &all[0]
	}
	return u, unreadable, err
}

// drop forgets the publish that is named.
func (o *resumeOptions) drop(h Host, args []string) error {
	if len(args) == 0 {
		return usage("--forget: name one of --list")
	}
	path, err := o.find(h, args[0])
	if err != nil {
		return err
	}
	dir, err := h.journalDir()
	if abs, _ := filepath.Abs(path); err != nil || filepath.Dir(abs) != filepath.Clean(dir) || filepath.Ext(path) != ".journal" {
		return usage("--forget %q: is none of --list", args[0]) // and not removed
	}
	if err := manifold.Forget(path); err != nil {
		return err
	}
	_, err = fmt.Fprintln(h.Out, "forgotten", render.Line(path))
	return err
}

// find is the file that a name means: a path, the name of a file of --list, or a
// target.
func (o *resumeOptions) find(h Host, name string) (string, error) {
	paths := []string{name}
	if dir, err := h.journalDir(); err == nil && filepath.Base(name) == name {
		paths = append(paths, filepath.Join(dir, name+".journal"), filepath.Join(dir, name))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	all, _ := m.Unfinished() // what cannot be read has no target to be found by
	all = slices.DeleteFunc(all, func(u manifold.Unfinished) bool { return !publishesTo(u, name) })
	if len(all) == 1 {
		return all[0].Path, nil
	}
	if len(all) > 1 {
		_ = render.Unfinished(h.Err, all)
		return "", usage("%q: %d publishes to it were interrupted; name one", name, len(all))
	}
	return "", usage("%q: neither a file of --list nor a target of what was interrupted", name)
}

// publishesTo reports whether a reference is one of the targets.
func publishesTo(u manifold.Unfinished, name string) bool {
	l, err := place(name)
	if err != nil {
		return false
	}
	want := l.AsReference().OrLatest().String()
	return slices.ContainsFunc(u.Plan.Targets, func(t plan.Target) bool { return t.Reference == want })
}
