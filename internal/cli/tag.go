package cli

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type tagOptions struct {
	registryFlags
	outputFlags
	publishFlags
}

func newTag(h Host) *cobra.Command {
	var o tagOptions
	cmd := &cobra.Command{
		Use:   "tag SOURCE TAG...",
		Short: "Give an image that is there more tags",
		Long: `Give an index or image that is in a repository, or in a layout (oci:DIR:TAG), more
tags there. A TAG is a name by itself, or a whole reference of the same
repository; to another repository use copy. Each tag is written once, and read
again; what is below the source is not looked at. Prints the digest.`,
		Args: atLeast(2, "a source and at least one tag"),
		RunE: func(cmd *cobra.Command, args []string) error { return runTag(cmd.Context(), h, o, args) },
	}
	f := cmd.Flags()
	o.registryFlags.add(f)
	o.outputFlags.add(f)
	o.publishFlags.add(f)
	return cmd
}

func runTag(ctx context.Context, h Host, o tagOptions, args []string) error {
	source, err := place(args[0])
	if err != nil {
		return err
	}
	opts := manifold.TagOptions{Source: source}
	var names []ref.Reference
	for _, a := range args[1:] {
		l, err := newName(source, a)
		if err != nil {
			return err
		}
		opts.Targets = append(opts.Targets, l)
		names = append(names, l.AsReference())
	}
	if opts.PublishOptions, err = o.publishing(names); err != nil {
		return err
	}
	if err := o.check(false); err != nil {
		return err
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	receipt, err := m.Tag(ctx, opts)
	if err != nil {
		return o.publishFailed(h, receipt, o.failed(receipt, err))
	}
	return published(receipt, func() error { return o.print(h.Out, receipt) }, o.writeReceipt(receipt))
}

// place reads a location, a path made absolute.
func place(s string) (ref.Location, error) {
	l, err := ref.ParseLocation(s)
	if err != nil {
		return l, &exitError{code: ExitUsage, err: err}
	}
	if l.Transport == ref.OCILayout || l.Transport == ref.OCIArchive {
		l.Path, err = filepath.Abs(l.Path)
	}
	return l, err
}

// newName reads a tag: a name by itself is one at the place of the source.
func newName(source ref.Location, s string) (ref.Location, error) {
	if !strings.ContainsAny(s, "/:@") {
		l := source
		l.Tag = s
		if source.Transport == ref.Registry {
			parsed, err := ref.Parse(source.Reference.Name() + ":" + s)
			if err != nil {
				return l, &exitError{code: ExitUsage, err: err}
			}
			l.Tag, l.Reference = "", parsed
		}
		return l, nil
	}
	l, err := place(s)
	if err != nil {
		return l, err
	}
	if l.Reference.Digest != "" || l.Tag == "" && l.Reference.Tag == "" {
		return l, usage("%q: is not a tag", s)
	}
	return l, nil
}
