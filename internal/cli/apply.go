package cli

import (
	"context"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/spf13/cobra"
)

type applyOptions struct {
	registryFlags
	outputFlags
	publishFlags
	progress string
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
	o.registryFlags.add(f)
	o.outputFlags.add(f)
}

func runApply(ctx context.Context, h Host, o applyOptions, path string) error {
	p, err := readPlan(h, path)
	if err != nil {
		return err
	}
	return o.run(ctx, h, func(ctx context.Context, m *manifold.Manifold) (manifold.Receipt, error) { return m.Apply(ctx, p) })
}

// run shows the progress of a publish that is a plan already, and its result.
func (o *applyOptions) run(ctx context.Context, h Host, publish func(context.Context, *manifold.Manifold) (manifold.Receipt, error)) error {
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
	r, err := publish(ctx, m)
	_ = shown.Wait() // a display that nobody sees does not fail a publish
	o.compared(h, r)
	if err = o.record(r, err); err != nil {
		return o.publishFailed(h, r, err)
	}
	return o.print(h.Out, r)
}
