package cli

import (
	"context"
	"fmt"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type verifyOptions struct {
	registryFlags
	platforms []string
	exact     bool
	json      bool
	quiet     bool
}

func newVerify(h Host) *cobra.Command {
	var o verifyOptions
	cmd := &cobra.Command{
		Use:   "verify REFERENCE",
		Short: "Check that a reference names a whole index",
		Long: `Check that a reference names an index that is whole: the index and every child by
digest, size and media type, the platform of every config against its label, and
that every blob is there. --platform names platforms that must be in it, with
--exact no others. All faults are listed, then the exit code is 3. A registry that
cannot be asked (no access, too many requests) is an error, never a fault.

A single image is a fault, since that is what is left when a tag of several
platforms was overwritten with one of them. With one --platform it passes: then it
is what was asked for. An artifact (a cache, a chart) holds no image and never
passes.`,
		Args: exactly(1, "one reference"),
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd.Context(), h, o, args[0]) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.platforms, "platform", nil, "`Platforms` that must be there")
	f.BoolVar(&o.exact, "exact", false, "Refuse platforms besides those of --platform")
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "Print the digest only")
	o.registryFlags.add(f)
	return cmd
}

func runVerify(ctx context.Context, h Host, o verifyOptions, arg string) error {
	l, err := ref.ParseLocation(arg)
	if err != nil {
		return &exitError{code: ExitUsage, err: err}
	}
	want, err := platforms(o.platforms)
	if err != nil {
		return err
	}
	if o.exact && len(want) == 0 {
		return usage("--exact wants --platform")
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	res, err := m.Verify(ctx, l, manifold.VerifyOptions{Platforms: want, Exact: o.exact})
	if err != nil {
		return err
	}
	if err := o.print(h, l.String(), res); err != nil {
		return err
	}
	if n := len(res.Faults()); n > 0 {
		return &exitError{code: ExitFaults, silent: true, err: fmt.Errorf("%s: %d faults", l, n)}
	}
	return nil
}

func (o verifyOptions) print(h Host, name string, res audit.Result) error {
	switch {
	case o.json:
		return render.JSON(h.Out, render.NewVerification(name, res))
	case o.quiet && len(res.Faults()) == 0:
		_, err := fmt.Fprintln(h.Out, res.Root.Digest)
		return err
	}
	return render.Findings(h.Out, name, res)
}
