package buildkit

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/containerd/errdefs"
	buildx "github.com/docker/buildx/build"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/opencontainers/go-digest"
)

// A Docker Engine without containerd's image store neither pushes by digest nor
// exports to a store. It builds into its own image store, without any name, and
// the image is taken out of there and packed the way the engine would push it.

// engine builds on such an engine.
func (p *port) engine(ctx context.Context, platforms []oci.Platform, keepGoing bool) ([]build.Image, error) {
	if err := p.checkEngine(); err != nil {
		return nil, err
	}
	taken, err := newTakeOut(ctx, p.machine.Driver.Config().DockerAPI)
	if err != nil {
		return nil, p.fault(nil, err)
	}
	var targets []target
	for _, pl := range platforms {
		targets = append(targets, target{platform: pl, options: engineOptions(p.spec, pl)})
	}
	results, err := p.solve(ctx, targets, "", keepGoing)
	var images []build.Image
	errs := []error{err}
	for _, r := range results {
		im, err := p.saved(ctx, r, taken)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		images = append(images, im)
	}
	return images, joined(errs)
}

// engineOptions build an image that has no name.
func engineOptions(spec *Spec, p oci.Platform) buildx.Options {
	o := platformOptions(spec, p)
	o.Exports = []client.ExportEntry{{Type: client.ExporterImage, Attrs: map[string]string{}}}
	return o
}

// checkEngine refuses what such an engine would leave out without a word.
func (p *port) checkEngine() error {
	fail := func(reason string) error {
		return &DriverError{Node: p.Name(), Driver: p.machine.Driver.Factory().Name(), Reason: reason}
	}
	for k, v := range askedAttests(p.spec) {
		if v != nil {
			return fail(k + ": this engine makes no attestations")
		}
	}
	for k, v := range p.spec.Image {
		switch {
		case transferAttr(k):
		case k == "oci-mediatypes" && !isTrue(v):
		default:
			return fail("output attribute " + k + ": this engine does not know it")
		}
	}
	return nil
}

// saved takes the image that a solve left in the engine out of it. Another build
// of the same image, or a prune, may have removed it: the engine still has its
// steps in the cache, and makes it again.
func (p *port) saved(ctx context.Context, r result, taken *takeOut) (build.Image, error) {
	for n := 1; ; n++ {
		im, err := p.savedOnce(ctx, r, taken)
		switch {
		case err == nil:
			return im, nil
		case !errdefs.IsNotFound(err) || n == relayAttempts:
			return im, p.fault(&r.platform, err)
		}
		t := r.target
		t.options = cached(t.options)
		again, err := p.solve(ctx, []target{t}, "", false)
		if err != nil {
			return build.Image{}, err
		}
		again[0].took += r.took
		r = again[0]
	}
}

// savedOnce reads the image from a temporary file, until Close: a saved image
// has its manifest at its end.
func (p *port) savedOnce(ctx context.Context, r result, taken *takeOut) (build.Image, error) {
	id := r.response.ExporterResponse[exptypes.ExporterImageConfigDigestKey]
	if id == "" {
		id = r.response.ExporterResponse[exptypes.ExporterImageDigestKey]
	}
	if digest.Digest(id).Validate() != nil {
		return build.Image{}, &ExportError{Reason: "the engine did not say which image it made"}
	}
	archive, err := p.archived(ctx, id, taken)
	if err != nil {
		return build.Image{}, fmt.Errorf("image %s: %w", id, err)
	}
	p.nodes.onClose(archive.Close)
	im := p.image(r)
	im.Content = archive
	if im.Manifest, err = archive.Resolve(ctx, ""); err != nil {
		return im, err
	}
	m, err := oci.ParseManifest(im.Manifest)
	im.Config = m.Config.Digest
	return im, err
}

// archived saves an image to a file, and has the engine forget it.
func (p *port) archived(ctx context.Context, id string, taken *takeOut) (*layout.DockerArchive, error) {
	f, err := os.CreateTemp(p.nodes.options.TempDir, "manifold-image-*")
	if err != nil {
		return nil, err
	}
	p.nodes.onClose(func() error { return os.Remove(f.Name()) })
	err = errors.Join(taken.save(ctx, id, f), f.Close())
	if left := p.forget(ctx, id, taken); left != nil {
		p.nodes.options.Report.Warn(p.Name(), fmt.Sprintf("image %s stays in the engine: %v", id, left))
	}
	if err != nil {
		return nil, err
	}
	return layout.OpenDockerArchive(f.Name())
}

// forget goes on for a moment when ctx has ended: what was built is there.
func (p *port) forget(ctx context.Context, id string, taken *takeOut) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.nodes.options.Timeout)
	defer cancel()
	return taken.forget(ctx, id)
}

// way is how the images of a node get to where they are published.
type way int

const (
	// pushes: the node pushes them by digest.
	pushes way = iota
	// hands: the node hands them over, as a BuildKit exports to a store.
	hands
	// saves: they are saved from the engine.
	saves
)
