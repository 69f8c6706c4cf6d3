package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type deleteOptions struct {
	registryFlags
	json bool
}

func newDelete(h Host) *cobra.Command {
	var o deleteOptions
	cmd := &cobra.Command{
		Use:   "delete TAG...",
		Short: "Delete tags, and nothing but the tags",
		Long: `Delete tags, each given as a whole reference with its tag, or oci:DIR:TAG. What a
tag names stays, and so do its other tags: where a registry cannot delete a tag
alone, nothing is deleted and the command fails. All tags are tried. What each
named is printed.`,
		Args: atLeast(1, "at least one tag"),
		RunE: func(cmd *cobra.Command, args []string) error { return runDelete(cmd.Context(), h, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	o.registryFlags.add(f)
	return cmd
}

func runDelete(ctx context.Context, h Host, o deleteOptions, args []string) error {
	var all []ref.Location
	for _, a := range args {
		l, err := place(a)
		if err != nil {
			return err
		}
		switch {
		case l.Reference.Digest != "":
			return usage("%s: is a digest; only tags are deleted", a)
		case l.Transport == ref.Registry && l.Reference.Tag == "", l.Transport == ref.OCILayout && l.Tag == "":
			return usage("%s: has no tag", a)
		case l.Transport != ref.Registry && l.Transport != ref.OCILayout:
			return usage("%s: tags are deleted in registries and layouts", a)
		}
		all = append(all, l)
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	done, err := deleteAll(ctx, m, all)
	if o.json {
		return errors.Join(err, render.JSON(h.Out, done))
	}
	return errors.Join(err, printDeleted(h.Out, done))
}

func deleteAll(ctx context.Context, m *manifold.Manifold, all []ref.Location) ([]manifold.Deleted, error) {
	done := []manifold.Deleted{}
	var errs []error
	for _, l := range all {
		d, err := m.DeleteTag(ctx, l)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		done = append(done, d)
	}
	return done, errors.Join(errs...)
}

func printDeleted(w io.Writer, done []manifold.Deleted) error {
	for _, d := range done {
		text := "is there still"
		if d.Gone {
			text = "the registry has removed it, too"
		}
		if _, err := fmt.Fprintf(w, "deleted %s (%s: %s)\n", d.Reference, d.Digest, text); err != nil {
			return err
		}
	}
	return nil
}
