package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/spf13/cobra"
)

type resumeOptions struct {
	applyOptions
	list bool
}

func newResume(h Host) *cobra.Command {
	var o resumeOptions
	cmd := &cobra.Command{
		Use:   "resume [FILE]",
		Short: "Finish a publish that was interrupted",
		Long: `Finish a publish that was killed or cut off. Nothing is sent again that is there,
and nothing is written when its tags have moved since: then the differences are
named, and the exit code is 4. The same command again does the same. FILE is one
of those that --list names; without it there must be only one. What nobody takes
up within a week is forgotten.`,
		Args: atMost(1, "one file of --list"),
		RunE: func(cmd *cobra.Command, args []string) error { return runResume(cmd.Context(), h, o, args) },
	}
	cmd.Flags().BoolVar(&o.list, "list", false, "List what was interrupted, and publish nothing")
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
		path := args[0]
		if filepath.Base(path) == path && filepath.Ext(path) == "" {
			dir, err := h.journalDir()
			if err != nil {
				return nil, nil, err
			}
			path = filepath.Join(dir, path+".journal")
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
