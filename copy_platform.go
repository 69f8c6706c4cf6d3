package manifold

import (
	"context"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/opencontainers/go-digest"
)

// filtered is what the platforms asked for leave of a root. An index stays an
// index, with another digest unless nothing is left out; an image must be of one
// of the platforms.
func (c *copier) filtered(ctx context.Context, root oci.Blob) (publish.Content, error) {
	if !oci.IsIndex(root.MediaType) {
		return c.checkedImage(ctx, root)
	}
	images, err := c.labelled(ctx, root)
	if err != nil {
		return publish.Content{}, err
	}
	kept, err := filter(images, c.o.Platforms)
	if err != nil {
		return publish.Content{}, err
	}
	if len(kept) == len(images) && labelledAndFlat(root) {
		manifests, err := c.from.gather(ctx, root)
		return publish.Content{Root: root, Manifests: manifests}, err
	}
	made, err := index.Assemble(kept, index.Options{Base: &root})
	if err != nil {
		return publish.Content{}, err
	}
	c.announceFilter(images, kept, root, made)
	manifests, err := c.from.gather(ctx, made)
	if err != nil {
		return publish.Content{}, err
	}
	// The new index is nowhere yet.
	delete(c.from.known, made.Digest)
	manifests = slices.DeleteFunc(manifests, func(m publish.Manifest) bool { return m.Digest == made.Digest })
	return publish.Content{Root: made, Manifests: manifests}, nil
}

// announceFilter says what a filter leaves out.
func (c *copier) announceFilter(all, kept []index.Image, root, made oci.Blob) {
	attestations := 0
	left := map[digest.Digest]bool{}
	for _, img := range all {
		attestations += len(img.Attestations)
		left[img.Entry.Digest] = true
	}
	for _, img := range kept {
		attestations -= len(img.Attestations)
		delete(left, img.Entry.Digest)
	}
	c.m.o.Report.Warn(c.o.Source.String(), fmt.Sprintf(
		"%d of %d images are left out, and their attestations (%d): %s becomes the index %s",
		len(left), len(all), attestations, root.Digest, made.Digest))
}

// labelled reads the images of an index, each with its platform; configs are
// read only where the index does not say it.
func (c *copier) labelled(ctx context.Context, root oci.Blob) ([]index.Image, error) {
	images, unbound, err := index.Expand(ctx, c.from.place, root, c.o.Source.String())
	if err != nil {
		return nil, err
	}
	for _, e := range unbound {
		c.m.o.Report.Warn(c.o.Source.String(), fmt.Sprintf("attestation %s speaks of an image that is not there, it is left out", e.Digest))
	}
	r := reader{place: c.from.place, name: c.from.name}
	for i := range images {
		img := &images[i]
		if img.Artifact || !oci.IsUnknownPlatform(img.Entry.Platform) {
			continue
		}
		if err := r.fetch(ctx, root, []index.Image{{Entry: img.Entry}}); err != nil {
			return nil, err
		}
		if err := r.label(ctx, img); err != nil {
			return nil, err
		}
	}
	return images, nil
}

// checkedImage is a single image whose platform is one of those asked for.
func (c *copier) checkedImage(ctx context.Context, root oci.Blob) (publish.Content, error) {
	v, err := oci.ParseManifest(root)
	if err != nil {
		return publish.Content{}, err
	}
	var missing, have []string
	var is oci.Platform
	if oci.IsImageConfig(v.Config.MediaType) {
		if is, err = platformOf(ctx, c.from.place, v); err != nil {
			return publish.Content{}, err
		}
		have = []string{oci.FormatPlatform(is)}
	}
	for _, p := range c.o.Platforms {
		if len(have) == 0 || !oci.SatisfiesPlatform(p, is) {
			missing = append(missing, oci.FormatPlatform(p))
		}
	}
	if len(missing) > 0 {
		return publish.Content{}, &PlatformsError{Missing: missing, Have: have}
	}
	manifests, err := c.from.gather(ctx, root)
	return publish.Content{Root: root, Manifests: manifests}, err
}
