package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/plan"
	"github.com/spf13/cobra"
)

func newPlan(h Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Look at plans that --plan-out has written",
		Args:  onlyCommands,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var json bool
	show := &cobra.Command{
		Use:   "show FILE",
		Short: "Show what a plan will write, where to, and what it costs",
		Long: `Show a plan: each target with the tags that will move and what they name now,
the preconditions, and the number of manifests, blobs, bytes and requests. FILE
may be - for standard input. No registry is asked.
` + exitHelp,
		Args: exactly(1, "one plan file"),
		RunE: func(_ *cobra.Command, args []string) error { return runPlanShow(h, args[0], json) },
	}
	show.Flags().BoolVar(&json, "json", false, "Print the plan as one JSON document")
	cmd.AddCommand(show)
	return cmd
}

func runPlanShow(h Host, path string, json bool) error {
	p, err := readPlan(h, path)
	if err != nil {
		return err
	}
	if json {
		return planDocument(h.Out, p)
	}
	return render.Plan(h.Out, p)
}

// planDocument prints a plan as the file that --plan-out writes.
func planDocument(w io.Writer, p plan.Plan) error {
	if err := p.Write(w); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

// readPlan reads a plan file, or standard input for "-".
func readPlan(h Host, path string) (plan.Plan, error) {
	in := io.Reader(h.In)
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return plan.Plan{}, notReadable(err)
		}
		defer f.Close()
		in = f
	}
	p, err := plan.Read(in)
	if err != nil {
		return p, usage("%s: %w", path, err)
	}
	return p, nil
}
