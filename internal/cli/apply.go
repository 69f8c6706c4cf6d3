package cli

import (
	"context"

	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/plan"
	"github.com/spf13/cobra"
)

type applyOptions struct {
	registryFlags
	outputFlags
	publishFlags
	digestFile string
	progress   string
}

func newApply(h Host) *cobra.Command {
	var o applyOptions
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Publish what a plan says that --plan-out has written",
		Long: `Publish what a plan says, if its tags still name what they named when the plan was
made; else nothing is written, the differences are named, and the exit code is 4.
FILE may be - for standard input.`,
		Args: exactly(1, "one plan file"),
		RunE: func(cmd *cobra.Command, args []string) error { return runApply(cmd.Context(), h, o, args[0]) },
	}
	o.addTo(cmd)
	return cmd
}

func (o *applyOptions) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.progress, "progress", "auto", "Progress on stderr: auto, none, plain, rawjson, tty")
	f.StringVar(&o.receipt, "receipt", "", "Write what was done to a `file` as JSON, also when it failed")
	f.StringVar(&o.digestFile, "digest-file", "", "Write the digest to a `file`, when all is done")
	o.registryFlags.add(f)
	o.outputFlags.add(f)
}

func runApply(ctx context.Context, h Host, o applyOptions, path string) error {
	p, err := readPlan(h, path)
	if err != nil {
		return err
	}
	return o.run(ctx, h, p)
}

// run publishes what is a plan already, and shows its progress and result.
func (o *applyOptions) run(ctx context.Context, h Host, p plan.Plan) error {
	if o.digestFile != "" && p.Root.Digest == "" {
		return usage("--digest-file: the plan has more than one digest")
	}
	if err := o.check(false, outputFile{"digest-file", o.digestFile}); err != nil {
		return err
	}
	mode, err := buildkit.ProgressMode(o.display(o.progress))
	if err != nil {
		return err
	}
	shown, err := buildkit.NewProgress(ctx, h.Err, mode, "")
	if err != nil {
		return err
	}
	m := o.library(h, shown.Sink())
	defer m.Close()
	r, err := m.Apply(ctx, p)
	_ = shown.Wait() // a display that nobody sees does not fail a publish
	o.compared(h, r)
	if err != nil {
		return o.publishFailed(h, r, o.failed(r, err))
	}
	return published(r, func() error { return o.print(h.Out, r) },
		o.writeReceipt(r), writeDigest(o.digestFile, r.Digest.String()))
}
