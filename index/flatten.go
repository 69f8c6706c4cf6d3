package index

import (
	"context"
	"fmt"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Flatten reads one level of an index into its images, in their order, each
// with the attestations that name it. others are the attestations whose image
// is not in b.
//
// An entry that is an index is returned as an image in its place: where
// [oci.IsIndex] holds for an entry's media type, fetch and flatten it, or use
// [Expand]. An entry without a platform is returned as it is: give it one with
// [WithPlatform], or mark it as an [Image.Artifact]. Entries that say
// themselves that they are no images (an artifact type and no platform, or a
// media type that is no manifest's) are marked already. Errors: those of
// [oci.ParseIndex].
func Flatten(b oci.Blob, source string) (images []Image, others []oci.Entry, err error) {
	images, attestations, err := split(b, source)
	if err != nil {
		return nil, nil, err
	}
	return images, bind(images, attestations), nil
}

// Expand is [Flatten] through every level: indexes inside b are fetched from f
// and replaced by their images. An attestation is bound wherever its image
// stands. Errors: those of [oci.ParseIndex] and of f, and a [*oci.DepthError].
func Expand(ctx context.Context, f oci.Fetcher, b oci.Blob, source string) (images []Image, others []oci.Entry, err error) {
	x := expander{fetcher: f, source: source, seen: map[digest.Digest]bool{}}
	if err := x.index(ctx, b, 0); err != nil {
		return nil, nil, err
	}
	return x.images, bind(x.images, x.attestations), nil
}

type expander struct {
	fetcher      oci.Fetcher
	source       string
	seen         map[digest.Digest]bool
	images       []Image
	attestations []oci.Entry
}

func (x *expander) index(ctx context.Context, b oci.Blob, depth int) error {
	if depth > oci.MaxDepth {
		return &oci.DepthError{Digest: b.Digest}
	}
	x.seen[b.Digest] = true
	images, attestations, err := split(b, x.source)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Digest, err)
	}
	x.attestations = append(x.attestations, attestations...)
	for _, img := range images {
		if err := x.entry(ctx, img, depth); err != nil {
			return err
		}
	}
	return nil
}

func (x *expander) entry(ctx context.Context, img Image, depth int) error {
	if !oci.IsIndex(img.Entry.MediaType) {
		x.images = append(x.images, img)
		return nil
	}
	if x.seen[img.Entry.Digest] {
		return nil
	}
	inner, err := x.fetcher.FetchManifest(ctx, img.Entry.Descriptor)
	if err != nil {
		return err
	}
	return x.index(ctx, inner, depth+1)
}

// split parts the entries of an index into attestations and the rest.
func split(b oci.Blob, source string) (images []Image, attestations []oci.Entry, err error) {
	idx, err := oci.ParseIndex(b)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range idx.Manifests {
		if _, ok := oci.IsAttestation(e.Descriptor); ok {
			attestations = append(attestations, e)
			continue
		}
		images = append(images, Image{Entry: e, Source: source, Artifact: isArtifact(e)})
	}
	return images, attestations, nil
}

func isArtifact(e oci.Entry) bool {
	if !oci.IsUnknownPlatform(e.Platform) {
		return false
	}
	return e.ArtifactType != "" || !oci.IsManifest(e.MediaType)
}

// bind gives each attestation to the first image that it names, and returns
// those that name none.
func bind(images []Image, attestations []oci.Entry) (others []oci.Entry) {
	place := make(map[digest.Digest]int, len(images))
	for i, img := range images {
		if _, ok := place[img.Entry.Digest]; !ok {
			place[img.Entry.Digest] = i
		}
	}
	for _, a := range attestations {
		subject, _ := oci.IsAttestation(a.Descriptor)
		if i, ok := place[subject]; ok {
			images[i].Attestations = append(images[i].Attestations, a)
			continue
		}
		others = append(others, a)
	}
	return others
}
