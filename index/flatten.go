package index

import (
	"context"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Flat is one level of an index, taken apart.
type Flat struct {
	// Images in the order listed, each with the attestations that name it. An
	// image without a platform is given as it is: give it one with
	// [WithPlatform], or mark it as an artifact. One that says itself that it is
	// no image (an artifact type and no platform) is marked already.
	Images []Image
	// Indexes inside the index, in the order listed: fetch and flatten them, or
	// use [Expand].
	Indexes []oci.Entry
	// Others are attestations whose image is not here, and entries that are not
	// manifests, such as the cache layers of BuildKit.
	Others []oci.Entry
}

// Manifests lists every entry that is a manifest or an index, each digest once:
// what has to be fetched to have the whole level.
func (f Flat) Manifests() []oci.Entry {
	var all []oci.Entry
	for _, img := range f.Images {
		all = append(all, img.Entry)
	}
	for _, img := range f.Images {
		all = append(all, img.Attestations...)
	}
	all = append(append(all, f.Indexes...), f.Others...)
	seen := map[digest.Digest]bool{}
	return slices.DeleteFunc(all, func(e oci.Entry) bool {
		drop := seen[e.Digest] || !oci.IsManifest(e.MediaType)
		seen[e.Digest] = true
		return drop
	})
}

// Flatten takes one level of an index apart. source is written to the images,
// for messages. Errors: those of [oci.ParseIndex].
func Flatten(b oci.Blob, source string) (Flat, error) {
	entries, err := split(b)
	if err != nil {
		return Flat{}, err
	}
	var c collector
	for _, e := range entries {
		if oci.IsIndex(e.MediaType) {
			c.indexes = append(c.indexes, e)
			continue
		}
		c.add(e, source)
	}
	return c.flat(), nil
}

// Expand is [Flatten] through every level: an index inside b is fetched from f
// and its images stand in its place, so that the result has no Indexes. An
// attestation is bound wherever its image stands. Errors: those of
// [oci.ParseIndex] and of f, and a [*oci.DepthError].
func Expand(ctx context.Context, f oci.Fetcher, b oci.Blob, source string) (Flat, error) {
	x := expander{fetcher: f, source: source, seen: map[digest.Digest]bool{}}
	if err := x.index(ctx, b, 0); err != nil {
		return Flat{}, err
	}
	return x.flat(), nil
}

type expander struct {
	collector
	fetcher oci.Fetcher
	source  string
	seen    map[digest.Digest]bool
}

func (x *expander) index(ctx context.Context, b oci.Blob, depth int) error {
	if depth > oci.MaxDepth {
		return &oci.DepthError{Digest: b.Digest}
	}
	x.seen[b.Digest] = true
	entries, err := split(b)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Digest, err)
	}
	for _, e := range entries {
		if err := x.entry(ctx, e, depth); err != nil {
			return err
		}
	}
	return nil
}

func (x *expander) entry(ctx context.Context, e oci.Entry, depth int) error {
	if !oci.IsIndex(e.MediaType) {
		x.add(e, x.source)
		return nil
	}
	if x.seen[e.Digest] {
		return nil
	}
	inner, err := x.fetcher.FetchManifest(ctx, e.Descriptor)
	if err != nil {
		return err
	}
	return x.index(ctx, inner, depth+1)
}

func split(b oci.Blob) ([]oci.Entry, error) {
	idx, err := oci.ParseIndex(b)
	return idx.Manifests, err
}

// collector sorts entries; bind comes last, when every image is known.
type collector struct {
	images                        []Image
	indexes, attestations, others []oci.Entry
}

func (c *collector) add(e oci.Entry, source string) {
	_, attestation := oci.IsAttestation(e.Descriptor)
	switch {
	case attestation:
		c.attestations = append(c.attestations, e)
	case !oci.IsManifest(e.MediaType):
		c.others = append(c.others, e)
	default:
		artifact := e.ArtifactType != "" && oci.IsUnknownPlatform(e.Platform)
		c.images = append(c.images, Image{Entry: e, Source: source, Artifact: artifact})
	}
}

// flat gives each attestation to the first image that it names.
func (c *collector) flat() Flat {
	f := Flat{Images: c.images, Indexes: c.indexes, Others: c.others}
	place := make(map[digest.Digest]int, len(c.images))
	for i, img := range c.images {
		if _, ok := place[img.Entry.Digest]; !ok {
			place[img.Entry.Digest] = i
		}
	}
	for _, a := range c.attestations {
		subject, _ := oci.IsAttestation(a.Descriptor)
		if i, ok := place[subject]; ok {
			f.Images[i].Attestations = append(f.Images[i].Attestations, a)
			continue
		}
		f.Others = append(f.Others, a)
	}
	return f
}
