package cli

import (
	"context"
	"errors"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/ref"
)

// exportBuild writes outputs that several nodes make together: layouts, archives
// and engines get the one index, folders and tar files the files of each
// platform.
func exportBuild(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, spec *buildkit.Spec, nodes *buildkit.Nodes) error {
	p, err := buildkit.NewProgress(ctx, h.Err, spec.Progress, describe(nodes))
	if err != nil {
		return err
	}
	m := o.registryFlags.library(h, p.Sink())
	defer m.Close()
	err = c.PlainOutputs(ctx, spec.Alone(), nodes, p.Writer())
	var built manifold.Built
	if err == nil {
		built, err = exportOutputs(ctx, o, spec, nodes, m, p)
	}
	if waitErr := p.Wait(); err == nil {
		err = waitErr
	}
	if err != nil {
		return err
	}
	err = writeResults(spec, spec.Tags, built, p)
	if spec.StdoutTaken || built.Index.Digest == "" { // files have no digest
		return err
	}
	out := outputFlags{json: o.json, quiet: spec.Quiet}
	return errors.Join(err, out.print(h.Out, built.Receipt))
}

// otherOutputs writes what a build has beside the push to targets. It builds
// everything for that, so the registries have to answer first.
func otherOutputs(ctx context.Context, o buildOptions, c *buildkit.Command, spec *buildkit.Spec, targets []ref.Reference, nodes *buildkit.Nodes, m *manifold.Manifold, p *buildkit.Progress) error {
	if len(spec.Others) > 0 {
		if err := m.Reach(ctx, targets); err != nil {
			return err
		}
	}
	if !nodes.MustCombine(spec) {
		return c.PlainOutputs(ctx, spec, nodes, p.Writer())
	}
	if err := c.PlainOutputs(ctx, spec.Alone(), nodes, p.Writer()); err != nil {
		return err
	}
	_, err := exportOutputs(ctx, o, spec, nodes, m, p)
	return err
}

// exportOutputs writes files and images; the result has an index if there are
// images.
func exportOutputs(ctx context.Context, o buildOptions, spec *buildkit.Spec, nodes *buildkit.Nodes, m *manifold.Manifold, p *buildkit.Progress) (manifold.Built, error) {
	image, err := spec.AsImage()
	if err != nil {
		return manifold.Built{}, err
	}
	opts, err := o.library(image)
	if err != nil {
		return manifold.Built{}, err
	}
	images, err := nodes.WriteFiles(ctx, spec, p.Writer(), opts.Run(p.Sink()))
	if err != nil || !spec.HasLayouts() {
		return manifold.Built{Images: images}, err
	}
	layouts, err := nodes.OpenLayouts(ctx, spec)
	if err != nil {
		return manifold.Built{}, err
	}
	into := make([]manifold.Export, len(layouts))
	for i, l := range layouts {
		into[i] = manifold.Export{Receiver: l, Tags: l.Tags}
	}
	opts.Nodes = nodes.Build(image, buildkit.BuildOptions{NoBinaryCheck: o.noBinaryCheck, Progress: p.Writer()})
	built, err := m.Export(ctx, opts, into...)
	for _, l := range layouts {
		if err == nil {
			err = l.Finish(ctx)
		}
	}
	return built, err
}
