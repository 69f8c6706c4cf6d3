package manifold

import (
	"context"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// source is one source, read whole: its images and all their manifests.
type source struct {
	location ref.Location
	// changed says that the images are not what root lists.
	changed   bool
	root      oci.Blob
	images    []index.Image
	manifests []publish.Manifest
}

// below fetches every manifest below a root that is for one of the platforms, or
// for any when there are none.
func (m *Manifold) below(ctx context.Context, l ref.Location, root oci.Blob, only []oci.Platform) (source, error) {
	p, name, err := m.open(ctx, l)
	if err != nil {
		return source{}, err
	}
	r := reader{place: p, name: name, only: only, checkBlobs: l.Transport != ref.Registry}
	return m.belowAt(ctx, r, l, root)
}

// belowAt fetches them from a place that is open.
func (m *Manifold) belowAt(ctx context.Context, r reader, l ref.Location, root oci.Blob) (source, error) {
	s := source{location: l, root: root}
	if !oci.IsIndex(root.MediaType) {
		s.images = []index.Image{{Entry: oci.Entry{Descriptor: root.Descriptor}, Source: l.String()}}
		r.keep(root)
		return s, r.finish(ctx, &s)
	}
	var unbound []oci.Entry
	var err error
	s.images, unbound, err = index.Expand(ctx, r.place, root, l.String())
	if err != nil {
		return s, err
	}
	for _, e := range unbound {
		m.o.Report.Warn(l.String(), fmt.Sprintf("attestation %s speaks of an image that is not there, it is left out", e.Digest))
	}
	if err := r.fetch(ctx, root, s.images); err != nil {
		return s, err
	}
	return s, r.finish(ctx, &s)
}

// reader collects manifests from one place.
type reader struct {
	place place
	name  string // of the place, in plans
	// only are the platforms whose manifests are read, all when empty.
	only []oci.Platform
	// checkBlobs looks for every blob: done where that costs no request.
	checkBlobs bool
	manifests  []publish.Manifest
}

func (r *reader) keep(b oci.Blob) {
	r.manifests = append(r.manifests, found(b, r.place, r.name))
}

// fetch reads the manifests of images and attestations side by side and keeps
// them in the order listed, each once. Those that are not there are all named.
func (r *reader) fetch(ctx context.Context, root oci.Blob, images []index.Image) error {
	all := r.wanted(images)
	blobs := make([]oci.Blob, len(all))
	eg, egctx := errgroup.WithContext(ctx)
	for i, n := range all {
		eg.Go(func() (err error) {
			blobs[i], err = r.place.FetchManifest(egctx, n.Descriptor)
			if err != nil && absent(err) {
				return nil
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	var missing []Missing
	for i, b := range blobs {
		if b.Bytes == nil {
			missing = append(missing, Missing{What: "manifest", Digest: all[i].Digest, Of: all[i].of})
			continue
		}
		r.keep(b)
	}
	if len(missing) > 0 {
		return &IncompleteError{Root: root.Digest, Missing: missing}
	}
	return nil
}

// wanted lists the manifests of images, each once, with what it is for.
func (r *reader) wanted(images []index.Image) []node {
	var out []node
	seen := map[digest.Digest]bool{}
	add := func(d oci.Descriptor, of string) {
		if oci.IsManifest(d.MediaType) && !seen[d.Digest] {
			seen[d.Digest] = true
			out = append(out, node{Descriptor: d, of: of})
		}
	}
	images = slices.DeleteFunc(slices.Clone(images), func(img index.Image) bool { return !r.reads(img) })
	known := map[digest.Digest]string{}
	for _, img := range images {
		add(img.Entry.Descriptor, placeOf(img.Entry.Descriptor, known))
	}
	for _, img := range images {
		for _, a := range img.Attestations {
			add(a.Descriptor, placeOf(a.Descriptor, known))
		}
	}
	return out
}

// reads reports whether an image may be of a platform that is asked for.
func (r *reader) reads(img index.Image) bool {
	p := img.Entry.Platform
	return len(r.only) == 0 || oci.IsUnknownPlatform(p) ||
		slices.ContainsFunc(r.only, func(want oci.Platform) bool { return oci.SatisfiesPlatform(want, *p) || needsVersion(img) })
}

// whole looks for every blob of what was read, and names all that are not there.
func (r *reader) whole(ctx context.Context, s *source) error {
	if !r.checkBlobs {
		return nil
	}
	names := map[digest.Digest]string{}
	for _, n := range r.wanted(s.images) {
		names[n.Digest] = n.of
	}
	var missing []Missing
	for _, b := range r.manifests {
		blobs, err := publish.BlobsOf(b.Blob)
		if err != nil {
			return err
		}
		for i, d := range blobs {
			there, err := r.place.StatBlob(ctx, d)
			if err != nil {
				return err
			}
			if !there {
				missing = append(missing, Missing{What: blobName(i), Digest: d.Digest, Of: names[b.Digest]})
			}
		}
	}
	if len(missing) > 0 {
		return &IncompleteError{Root: s.root.Digest, Missing: missing}
	}
	return nil
}

// blobName is what a blob of an image is by its place.
func blobName(i int) string {
	if i == 0 {
		return "config"
	}
	return "layer"
}

// finish gives images without a platform the one of their config, and marks
// what is no image that runs.
func (r *reader) finish(ctx context.Context, s *source) error {
	s.manifests = r.manifests
	if err := r.whole(ctx, s); err != nil {
		return err
	}
	eg, ctx := errgroup.WithContext(ctx)
	for i := range s.images {
		eg.Go(func() error { return r.label(ctx, &s.images[i]) })
	}
	return eg.Wait()
}

// needsVersion reports a Windows image whose entry does not say which: Windows
// chooses by it, and two of them would look like one (docker/buildx#563).
func needsVersion(img index.Image) bool {
	p := img.Entry.Platform
	return p != nil && p.OS == "windows" && p.OSVersion == ""
}

func (r *reader) label(ctx context.Context, img *index.Image) error {
	if img.Artifact || !oci.IsUnknownPlatform(img.Entry.Platform) && !needsVersion(*img) {
		return nil
	}
	i := slices.IndexFunc(r.manifests, func(m publish.Manifest) bool { return m.Digest == img.Entry.Digest })
	if i < 0 {
		return nil
	}
	v, err := oci.ParseManifest(r.manifests[i].Blob)
	if err != nil {
		return fmt.Errorf("%s: %w", img.Entry.Digest, err)
	}
	if !oci.IsImageConfig(v.Config.MediaType) {
		img.Artifact = true
		return nil
	}
	p, err := platformOf(ctx, r.place, v)
	if err != nil {
		return err
	}
	if !oci.IsUnknownPlatform(&p) {
		img.Entry = index.WithPlatform(img.Entry, p)
	}
	return nil
}
