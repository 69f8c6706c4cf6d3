package cli

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"golang.org/x/sync/errgroup"
)

// baked is what became of one target.
type baked struct {
	name     string
	receipt  manifold.Receipt
	pushed   bool
	flags    registryFlags  // with what -v has noted
	metadata map[string]any // nil if it failed
}

// all builds the targets side by side.
func (b baking) all(ctx context.Context, targets []buildkit.BakeTarget) ([]baked, error) {
	done := make([]baked, len(targets))
	errs := make([]error, len(targets))
	group, grouped := errgroup.WithContext(ctx)
	if b.jobs.Parallel > 0 {
		group.SetLimit(b.jobs.Parallel)
	}
	if b.jobs.DeferError {
		grouped = ctx
	}
	for i, t := range targets {
		group.Go(func() error {
			done[i].name = t.Name
			select {
			case <-grouped.Done(): // never begun
				return nil
			default:
			}
			done[i], errs[i] = b.one(grouped, t, len(targets) > 1)
			return errs[i]
		})
	}
	err := group.Wait()
	if b.jobs.DeferError {
		err = errors.Join(errs...)
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return done, err
}

// one builds a target, and names it in what comes of it.
func (b baking) one(ctx context.Context, t buildkit.BakeTarget, several bool) (baked, error) {
	w := b.progress.Writer()
	if several {
		w = b.progress.Prefixed(t.Name)
	}
	out, err := b.build(ctx, t, w)
	if out.name = t.Name; err != nil {
		return out, fmt.Errorf("target %s: %w", t.Name, err)
	}
	return out, nil
}

func (b baking) build(ctx context.Context, t buildkit.BakeTarget, w buildkit.ProgressWriter) (baked, error) {
	ready := b.ready()
	if ready != nil && len(t.Others) > 0 {
		// Outputs of nodes are written while they build.
		if _, err := b.c.PlainTarget(ctx, t.Evaluated(), b.nodes, w); err != nil {
			return baked{}, err
		}
		if err := ready(ctx); err != nil {
			return baked{}, err
		}
		t.Spec, ready = t.Again(), nil
	}
	if t.Push {
		return b.push(ctx, t, w, ready)
	}
	out, err := b.plain(ctx, t, w)
	if err == nil && ready != nil { // others wait for this one, too
		err = ready(ctx)
	}
	return out, err
}

// ready waits until all targets are built, if they are to wait for each other.
func (b baking) ready() func(context.Context) error {
	if !b.jobs.DeferOutput {
		return nil
	}
	return b.built.arrive
}

func (b baking) push(ctx context.Context, t buildkit.BakeTarget, w buildkit.ProgressWriter, ready func(context.Context) error) (baked, error) {
	o := b.o
	opts, err := o.library(t.Spec)
	if err != nil {
		return baked{}, err
	}
	m := o.registryFlags.library(b.h, b.progress.Sink())
	defer m.Close()
	if err := otherOutputs(ctx, o, b.c, t.Spec, opts.Targets, b.nodes, m, b.progress); err != nil {
		return baked{}, err
	}
	opts.Ready = ready
	opts.Nodes = b.nodes.Build(t.Spec, buildkit.BuildOptions{
		Registry: m, Relay: o.relay, NoBinaryCheck: o.noBinaryCheck, Progress: w, Report: b.progress.Sink(),
	})
	built, err := m.Build(ctx, opts)
	out := baked{receipt: built.Receipt, pushed: true, flags: o.registryFlags}
	if err == nil {
		out.metadata = bakedMetadata(t.Spec, t.Names, built)
	}
	return out, err
}

// plain builds a target that pushes nothing.
func (b baking) plain(ctx context.Context, t buildkit.BakeTarget, w buildkit.ProgressWriter) (baked, error) {
	if !b.nodes.MustCombine(t.Spec) {
		resp, err := b.c.PlainTarget(ctx, t.Spec, b.nodes, w)
		if err != nil {
			return baked{}, err
		}
		return baked{metadata: buildkit.PlainMetadata(resp)}, nil
	}
	o := b.o
	m := o.registryFlags.library(b.h, b.progress.Sink())
	defer m.Close()
	built, err := exportOutputs(ctx, o, t.Spec, b.nodes, m, b.progress)
	if err != nil {
		return baked{}, err
	}
	return baked{metadata: bakedMetadata(t.Spec, t.Tags, built)}, nil
}

func bakedMetadata(spec *buildkit.Spec, names []string, built manifold.Built) map[string]any {
	if len(built.Images) == 0 {
		return map[string]any{}
	}
	published := buildkit.Published{Index: built.Index.Descriptor, Names: names, Platforms: buildkit.PublishedPlatforms(built.Images)}
	published.Index.Annotations = spec.IndexDescriptorAnnotations
	return buildkit.Metadata(published)
}

// compared prints, with -v, the digests of every target that was published.
func (b baking) compared(done []baked) {
	for _, d := range done {
		d.flags.compared(b.h, d.receipt)
	}
}

// print prints a receipt for every target that was published.
func (b baking) print(done []baked) error {
	if b.o.json {
		docs := map[string]manifold.Receipt{}
		for _, d := range done {
			if d.pushed {
				docs[d.name] = d.receipt
			}
		}
		return render.JSON(b.h.Out, docs)
	}
	for _, d := range done {
		if !d.pushed || d.receipt.Digest == "" {
			continue
		}
		if len(done) > 1 {
			if _, err := fmt.Fprintf(b.h.Out, "target %s\n", d.name); err != nil {
				return err
			}
		}
		if err := render.Receipt(b.h.Out, d.receipt); err != nil {
			return err
		}
	}
	return nil
}

// writeMetadata writes an object with one member per target that succeeded, as
// buildx does.
func (b baking) writeMetadata(common *buildkit.Spec, done []baked) error {
	all := map[string]any{}
	for _, d := range done {
		if d.metadata != nil {
			all[d.name] = d.metadata
		}
	}
	buildkit.AddWarnings(all, common, b.progress)
	return buildkit.WriteMetadata(common.MetadataFile, all)
}

// gate opens when as many have arrived as it was made for.
type gate struct {
	missing atomic.Int64
	open    chan struct{}
}

func newGate(n int) *gate {
	g := &gate{open: make(chan struct{})}
	g.missing.Store(int64(n))
	return g
}

// arrive waits for the others, or for the end of ctx.
func (g *gate) arrive(ctx context.Context) error {
	if g.missing.Add(-1) == 0 {
		close(g.open)
	}
	select {
	case <-g.open:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
