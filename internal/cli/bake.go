package cli

import (
	"context"
	"errors"

	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/spf13/cobra"
)

func newBake(h Host) *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "bake [OPTIONS] [TARGET...]",
		Short: "Build the targets of a bake file and publish each as one index",
		Long: `Build targets of buildx's bake files (HCL, JSON, compose) and publish each as
"manifold build" does: one index per target, every tag moved once. All flags of
"docker buildx bake" are taken. Targets are built side by side; one that fails
stops those that are not published yet, and leaves those that are. With
--jobs=defer-output nothing is published before all are built, with
--jobs=defer-error the others are finished. Two targets that publish one tag are
refused. The metadata file has every target that was asked for, also with
defer-error those that succeeded. --print and --list are buildx's own, and --call
asks without writing anything.`,
		Args: cobra.ArbitraryArgs,
	}
	cli, err := buildkit.NewDockerCLI(h.In, h.Out, h.Err)
	if err != nil {
		return broken(cmd, err)
	}
	c, err := buildkit.NewBakeCommand(cli)
	if err != nil {
		return broken(cmd, err)
	}
	f := cmd.Flags()
	f.AddFlagSet(c.Flags())
	o.addNodes(f)
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	o.registryFlags.add(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runBake(cmd.Context(), h, o, c, args) }
	return cmd
}

// broken is a command that only says why it cannot run.
func broken(cmd *cobra.Command, err error) *cobra.Command {
	cmd.RunE = func(*cobra.Command, []string) error { return err }
	cmd.DisableFlagParsing = true
	return cmd
}

// shown makes a definition that cannot be read a usage error, as it is where it
// is built.
func shown(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	return &exitError{code: ExitUsage, err: err}
}

func runBake(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, args []string) error {
	if c.OnlyShows() {
		return shown(ctx, c.RunBake(ctx, args))
	}
	local := &localNode{host: h, buildkitd: o.buildkitd}
	defer local.close()
	common, err := c.Common(h.Env)
	if err != nil {
		return err
	}
	if err := checkFiles(outputFile{"metadata-file", common.MetadataFile}); err != nil {
		return err
	}
	if err := buildkit.RemoveResult(common.MetadataFile); err != nil {
		return err
	}
	jobs, err := c.Jobs()
	if err != nil {
		return err
	}
	nodes, err := openNodes(ctx, h, o, c, common, local)
	if err != nil {
		return err
	}
	defer nodes.Close()
	listed, err := nodes.BuilderNodes(ctx)
	if err != nil {
		return err
	}
	bake, err := c.ReadBake(ctx, args, listed, h.Env)
	if err != nil {
		return err
	}
	if n := len(bake.Targets); jobs.DeferOutput && jobs.Parallel > 0 && jobs.Parallel < n {
		return usage("--jobs: with defer-output all %d targets have to run at once", n)
	}
	p, err := buildkit.NewProgress(ctx, h.Err, common.Progress, describe(nodes))
	if err != nil {
		return err
	}
	b := baking{h: h, o: o, c: c, nodes: nodes, progress: p, jobs: jobs, built: newGate(len(bake.Targets))}
	return b.run(ctx, bake, common)
}

// run builds the targets, asks what is to be asked, prints, and writes the file.
func (b baking) run(ctx context.Context, bake *buildkit.Bake, common *buildkit.Spec) error {
	done, err := b.all(ctx, bake.Targets)
	var answers *buildkit.Answers
	if err == nil && bake.HasCalls() {
		answers, err = b.c.Ask(ctx, bake, b.nodes, b.progress.Writer())
	}
	_ = b.progress.Wait() // a display that nobody sees does not fail a publish
	b.compared(done)
	if perr := b.print(done); err == nil {
		err = perr
	}
	if err == nil || b.jobs.DeferError {
		err = errors.Join(err, b.writeMetadata(common, done))
	}
	if err == nil && answers != nil {
		err = answers.Print(b.h.Out)
	}
	return err
}

// baking is one run of bake.
type baking struct {
	h        Host
	o        buildOptions
	c        *buildkit.Command
	nodes    *buildkit.Nodes
	progress *buildkit.Progress
	jobs     buildkit.Jobs
	// built opens when all targets are built.
	built *gate
}
