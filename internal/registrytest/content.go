package registrytest

import (
	"maps"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/manifold-oci/manifold/oci"
)

// Content is a manifest or index with everything below it. The same arguments
// make the same bytes.
type Content struct {
	// Root is the manifest or index.
	Root oci.Blob
	// Platform is what an index says of it, nil for nothing.
	Platform *oci.Platform
	// Annotations are those of its entry in an index.
	Annotations map[string]string
	// ArtifactType is that of its entry in an index.
	ArtifactType string
	// Blobs are the config, then the layers; none for an index.
	Blobs []oci.Blob
	// Children are an index's, in its order.
	Children []Content
}

// Digest is the root's.
func (c Content) Digest() digest.Digest { return c.Root.Digest }

// Entry is the descriptor with which an index lists the content.
func (c Content) Entry() oci.Descriptor {
	d := c.Root.Descriptor
	d.Platform, d.Annotations, d.ArtifactType = c.Platform, maps.Clone(c.Annotations), c.ArtifactType
	return d
}

// Manifests are all manifests and indexes, each after those it lists; the root
// is the last.
func (c Content) Manifests() []oci.Blob {
	var out []oci.Blob
	for _, child := range c.Children {
		out = append(out, child.Manifests()...)
	}
	return append(out, c.Root)
}

// AllBlobs are the blobs of the content and of everything below it, some of
// them perhaps more than once.
func (c Content) AllBlobs() []oci.Blob {
	out := append([]oci.Blob(nil), c.Blobs...)
	for _, child := range c.Children {
		out = append(out, child.AllBlobs()...)
	}
	return out
}

// IndexOptions change what Index makes.
type IndexOptions struct {
	// Docker makes a manifest list.
	Docker bool
	Style  Style
	// Annotations are the index's own.
	Annotations map[string]string
	// Extra are members that no specification knows.
	Extra map[string]any
	// Subject is the manifest that the index refers to.
	Subject *oci.Descriptor
	// ArtifactType of the index.
	ArtifactType string
}

// Index makes an index or manifest list over children, in the order given.
func Index(t testing.TB, o IndexOptions, children ...Content) Content {
	t.Helper()
	idx := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeIndex,
		ArtifactType: o.ArtifactType, Manifests: []oci.Descriptor{}, Subject: o.Subject, Annotations: o.Annotations,
	}
	if o.Docker {
		idx.MediaType = oci.MediaTypeDockerList
	}
	for _, c := range children {
		idx.Manifests = append(idx.Manifests, c.Entry())
	}
	return Content{Root: encode(t, idx.MediaType, o.Style, idx, o.Extra), Children: children}
}

func encode(t testing.TB, mediaType string, s Style, v any, extra map[string]any) oci.Blob {
	t.Helper()
	b, err := s.encode(v, extra)
	if err != nil {
		t.Fatal(err)
	}
	return oci.NewBlob(mediaType, b)
}
