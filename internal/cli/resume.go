package cli

import (
	"context"
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
		if err != nil {
			return err
		}
		if o.json {
			return render.JSON(h.Out, render.NewUnfinished(all))
		}
		return render.Unfinished(h.Out, all)
	}
	u, err := o.choose(h, args)
	if err != nil || u == nil {
		return err
	}
	err = o.run(ctx, h, u.Plan)
	if is[*apply.WorldError](err) {
		return &staleError{err}
	}
	return err
}

// staleError is an interrupted publish whose tags have moved since.
type staleError struct{ err error }

func (e *staleError) Error() string { return e.err.Error() }
func (e *staleError) Unwrap() error { return e.err }

// choose is the publish to finish, nil when there is none.
func (o *resumeOptions) choose(h Host, args []string) (*manifold.Unfinished, error) {
	if len(args) == 1 {
		path := args[0]
		if filepath.Base(path) == path && filepath.Ext(path) == "" {
			dir, err := h.journalDir()
			if err != nil {
				return nil, err
			}
			path = filepath.Join(dir, path+".journal")
		}
		u, err := manifold.ReadUnfinished(path)
		return &u, notReadable(err)
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	all, err := m.Unfinished()
	switch {
	case err != nil:
		return nil, err
	case len(all) == 0:
		_, err := fmt.Fprintln(h.Err, "nothing was interrupted")
		return nil, err
	case len(all) > 1:
		_ = render.Unfinished(h.Err, all)
		return nil, usage("%d publishes were interrupted; name one", len(all))
	}
	return &all[0], nil
}
