package cli

import (
	"context"
	"fmt"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
)

func newBake(h Host) *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "bake [OPTIONS] [TARGET...]",
		Short: "Build the targets of a bake file and publish each as one index",
		Long: `Build targets of buildx's bake files (HCL, JSON, compose) and publish each as
"manifold build" does: one index per target, every tag moved once. All flags of
"docker buildx bake" are taken. Targets are built side by side; one that fails
stops those that are not published yet. --print, --list and --call are buildx's
own.`,
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

func runBake(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, args []string) error {
	if c.OnlyShows() {
		return c.RunBake(ctx, args)
	}
	local := &localNode{host: h, buildkitd: o.buildkitd}
	defer local.close()
	common, err := c.Common(h.Env)
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
	targets, err := c.ReadBake(ctx, args, listed, h.Env)
	if err != nil {
		return err
	}
	if err := buildkit.RemoveResult(common.MetadataFile); err != nil {
		return err
	}
	p, err := buildkit.NewProgress(ctx, h.Err, common.Progress, describe(nodes))
	if err != nil {
		return err
	}
	b := baking{h: h, o: o, c: c, nodes: nodes, progress: p}
	done, err := b.all(ctx, targets)
	_ = p.Wait() // a display that nobody sees does not fail a publish
	if perr := b.print(targets, done); err == nil {
		err = perr
	}
	if err != nil {
		return err
	}
	return writeBakeMetadata(common.MetadataFile, targets, done)
}

// baking is one run of bake.
type baking struct {
	h        Host
	o        buildOptions
	c        *buildkit.Command
	nodes    *buildkit.Nodes
	progress *buildkit.Progress
}

// baked is what became of one target.
type baked struct {
	receipt  manifold.Receipt
	pushed   bool
	metadata map[string]any
}

// all builds the targets side by side.
func (b baking) all(ctx context.Context, targets []buildkit.BakeTarget) ([]baked, error) {
	done := make([]baked, len(targets))
	group, ctx := errgroup.WithContext(ctx)
	for i, t := range targets {
		group.Go(func() (err error) {
			done[i], err = b.one(ctx, t, len(targets) > 1)
			if err != nil {
				return fmt.Errorf("target %s: %w", t.Name, err)
			}
			return nil
		})
	}
	return done, group.Wait()
}

func (b baking) one(ctx context.Context, t buildkit.BakeTarget, several bool) (baked, error) {
	w := b.progress.Writer()
	if several {
		w = b.progress.Prefixed(t.Name)
	}
	if !t.Push {
		return b.plain(ctx, t, w)
	}
	o := b.o
	opts, err := o.library(t.Spec)
	if err != nil {
		return baked{}, err
	}
	m := o.registryFlags.library(b.h, b.progress.Sink())
	defer m.Close()
	if err := otherOutputs(ctx, o, b.c, t.Spec, b.nodes, m, b.progress); err != nil {
		return baked{}, err
	}
	opts.Nodes = b.nodes.Build(t.Spec, buildkit.BuildOptions{
		Registry: m, Relay: o.relay, NoBinaryCheck: o.noBinaryCheck, Progress: w, Report: b.progress.Sink(),
	})
	built, err := m.Build(ctx, opts)
	out := baked{receipt: built.Receipt, pushed: true}
	if err == nil {
		out.metadata = publishedMetadata(t.Spec, t.Names, built)
	}
	return out, err
}

// plain builds a target that pushes nothing.
func (b baking) plain(ctx context.Context, t buildkit.BakeTarget, w buildkit.ProgressWriter) (baked, error) {
	if !b.nodes.MustCombine(t.Spec) {
		resp, err := b.c.PlainTarget(ctx, t.Spec, b.nodes, w)
		return baked{metadata: buildkit.PlainMetadata(resp)}, err
	}
	o := b.o
	m := o.registryFlags.library(b.h, b.progress.Sink())
	defer m.Close()
	built, err := exportOutputs(ctx, o, t.Spec, b.nodes, m, b.progress)
	return baked{metadata: publishedMetadata(t.Spec, t.Tags, built)}, err
}

func publishedMetadata(spec *buildkit.Spec, names []string, built manifold.Built) map[string]any {
	if built.Index.Digest == "" {
		return map[string]any{}
	}
	published := buildkit.Published{Index: built.Index.Descriptor, Names: names, Platforms: buildkit.PublishedPlatforms(built.Images)}
	published.Index.Annotations = spec.IndexDescriptorAnnotations
	return buildkit.Metadata(published)
}

// print prints a receipt for every target that was published.
func (b baking) print(targets []buildkit.BakeTarget, done []baked) error {
	if b.o.json {
		docs := map[string]manifold.Receipt{}
		for i, d := range done {
			if d.pushed {
				docs[targets[i].Name] = d.receipt
			}
		}
		return render.JSON(b.h.Out, docs)
	}
	for _, d := range done {
		if !d.pushed || d.receipt.Digest == "" {
			continue
		}
		if err := render.Receipt(b.h.Out, d.receipt); err != nil {
			return err
		}
	}
	return nil
}

// writeBakeMetadata writes an object with one member per target, as buildx does.
func writeBakeMetadata(path string, targets []buildkit.BakeTarget, done []baked) error {
	all := map[string]any{}
	for i, d := range done {
		all[targets[i].Name] = d.metadata
	}
	return buildkit.WriteMetadata(path, all)
}
