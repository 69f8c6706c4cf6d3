package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
// the image is saved from there and packed the way the engine would push it.

// engine builds on such an engine.
func (p *port) engine(ctx context.Context, platforms []oci.Platform, keepGoing bool) ([]build.Image, error) {
	if err := p.checkEngine(); err != nil {
		return nil, err
	}
	var targets []target
	for _, pl := range platforms {
		targets = append(targets, target{platform: pl, options: engineOptions(p.spec, pl)})
	}
	results, err := p.solve(ctx, targets, "", keepGoing)
	var images []build.Image
	errs := []error{err}
	for _, r := range results {
		im, err := p.saved(ctx, r)
		if err != nil {
			errs = append(errs, p.fault(&r.platform, err))
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
	for k, v := range p.spec.Attests {
		if v != nil {
			return fail(k + ": this engine makes no attestations; turn on its containerd image store, or build on a BuildKit node")
		}
	}
	for k, v := range p.spec.Image {
		switch {
		case transferAttr(k):
		case k == "oci-mediatypes" && !isTrue(v):
		default:
			return fail("output attribute " + k + ": this engine does not know it; turn on its containerd image store, or build on a BuildKit node")
		}
	}
	return nil
}

// saved reads the image that a solve left in the engine. It is in a temporary
// file until Close: a saved image has its manifest at its end.
func (p *port) saved(ctx context.Context, r result) (build.Image, error) {
	id := r.response.ExporterResponse[exptypes.ExporterImageConfigDigestKey]
	if id == "" {
		id = r.response.ExporterResponse[exptypes.ExporterImageDigestKey]
	}
	if digest.Digest(id).Validate() != nil {
		return build.Image{}, &ExportError{Reason: "the engine did not say which image it made"}
	}
	archive, err := p.save(ctx, id)
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

func (p *port) save(ctx context.Context, id string) (*layout.DockerArchive, error) {
	f, err := os.CreateTemp(p.nodes.options.TempDir, "manifold-image-*")
	if err != nil {
		return nil, err
	}
	p.nodes.onClose(func() error { return os.Remove(f.Name()) })
	body, err := p.machine.Driver.Config().DockerAPI.ImageSave(ctx, []string{id})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	_, err = io.Copy(f, body)
	if err := errors.Join(err, body.Close(), f.Close()); err != nil {
		return nil, err
	}
	return layout.OpenDockerArchive(f.Name())
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
