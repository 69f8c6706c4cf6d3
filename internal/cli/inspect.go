package cli

import (
	"context"
	"fmt"
	"io"
	"text/template"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type inspectOptions struct {
	registryFlags
	raw    bool
	json   bool
	digest bool
	format string

	platform  string
	referrers bool
}

func newInspect(h Host) *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect REFERENCE",
		Short: "Show what a reference names, as a tree",
		Long: `Show what a reference names: the index with its platforms and sizes, each
attestation with the image that it speaks of, artifacts as such. A platform that
only the image's config tells is marked. The reference may be an image layout
(oci:DIR[:TAG], oci-archive:FILE[:TAG]).

A manifest that is not there is shown as missing, and the exit code is 1; what
else may be wrong with an image, "manifold verify" tells.

With --platform only the image for that platform is shown; with --raw and --digest
it is that image's manifest, byte for byte, and its digest. A platform that is not
there is an error that lists those that are.

--format takes a Go template over the document that --json prints, by its names, as
{{.digest}} or {{range .images}}{{.platform}} {{end}}, with the function json.`,
		Args: exactly(1, "one reference"),
		RunE: func(cmd *cobra.Command, args []string) error { return runInspect(cmd.Context(), h, o, args[0]) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.raw, "raw", false, "Print the exact bytes of the manifest")
	f.BoolVar(&o.json, "json", false, "Print the tree as JSON")
	f.BoolVar(&o.digest, "digest", false, "Print the digest only")
	f.BoolVar(&o.referrers, "referrers", false, "Show what refers to the index and to each child, too")
	f.StringVarP(&o.platform, "platform", "p", "", "Show only the image for this `platform`")
	f.StringVar(&o.format, "format", "", "Print by a Go `template`")
	cmd.MarkFlagsMutuallyExclusive("raw", "json", "digest", "format")
	o.registryFlags.add(f)
	return cmd
}

func runInspect(ctx context.Context, h Host, o inspectOptions, arg string) error {
	l, err := ref.ParseLocation(arg)
	if err != nil {
		return &exitError{code: ExitUsage, err: err}
	}
	t, err := render.ParseTemplate(o.format)
	if err != nil {
		return usage("--format: %w", err)
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	if l, err = o.narrowed(ctx, m, l); err != nil {
		return err
	}
	if o.raw || o.digest {
		b, err := m.Resolve(ctx, l)
		if err != nil {
			return err
		}
		if o.digest {
			_, err = fmt.Fprintln(h.Out, b.Digest)
			return err
		}
		return rawDocument(h.Out, b.Bytes)
	}
	doc, err := o.inspection(ctx, m, l)
	if err != nil {
		return err
	}
	switch {
	case o.json:
		err = render.JSON(h.Out, doc)
	case o.format != "":
		err = executed(h.Out, t, doc)
	default:
		err = render.Tree(h.Out, doc)
	}
	if err != nil {
		return err
	}
	return whole(l, doc.Tree)
}

// executed writes what a template makes of foreign text, fit for a terminal.
func executed(w io.Writer, t *template.Template, doc render.Inspection) error {
	text, err := render.Execute(t, doc)
	if is[*render.FieldError](err) {
		return usage("--format: %w", err)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, render.Text(text))
	return err
}

// narrowed is the location of the image that --platform asks for.
func (o inspectOptions) narrowed(ctx context.Context, m *manifold.Manifold, l ref.Location) (ref.Location, error) {
	if o.platform == "" {
		return l, nil
	}
	p, err := oci.ParsePlatform(o.platform)
	if err != nil {
		return l, err
	}
	return m.AtPlatform(ctx, l, p)
}

// whole is an error for a tree with holes: it was shown, but nobody can pull it.
func whole(l ref.Location, t audit.Tree) error {
	if missing := t.Missing(); len(missing) > 0 {
		return fmt.Errorf("%s: manifests that are not there: %v", l, missing)
	}
	return nil
}

func (o inspectOptions) inspection(ctx context.Context, m *manifold.Manifold, l ref.Location) (render.Inspection, error) {
	i, err := m.Inspect(ctx, l)
	doc := render.NewInspection(i)
	if err == nil && o.referrers {
		doc.Referrers, err = m.Referrers(ctx, l)
	}
	return doc, err
}
