package registrytest

import (
	"fmt"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/manifold-oci/manifold/oci"
)

const (
	predicateType      = "https://slsa.dev/provenance/v1"
	mediaTypeStatement = "application/vnd.in-toto+json"
)

// Attestation makes an attestation of an image, bound to it by the annotations
// of its index entry, in the form that BuildKit writes: a manifest whose layer
// is an in-toto statement.
func Attestation(t testing.TB, of Content) Content {
	t.Helper()
	statement := oci.NewBlob(mediaTypeStatement, fmt.Appendf(nil,
		`{"_type":"https://in-toto.io/Statement/v0.1","predicateType":%q,"subject":[{"name":"image","digest":{"sha256":%q}}],"predicate":{}}`,
		predicateType, of.Digest().Encoded()))
	unknown := oci.Platform{OS: "unknown", Architecture: "unknown"}
	config := encode(t, oci.MediaTypeConfig, Style{}, imageConfig{
		Architecture: unknown.Architecture, OS: unknown.OS, Config: map[string]any{},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{statement.Digest}},
	}, nil)
	layer := statement.Descriptor
	layer.Annotations = map[string]string{"in-toto.io/predicate-type": predicateType}
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeManifest,
		Config: config.Descriptor, Layers: []oci.Descriptor{layer},
	}
	return Content{
		Root:     encode(t, m.MediaType, Style{Indent: "  "}, m, nil),
		Platform: &unknown,
		Annotations: map[string]string{
			oci.AnnotationReferenceType:   "attestation-manifest",
			oci.AnnotationReferenceDigest: of.Digest().String(),
		},
		Blobs: []oci.Blob{config, statement},
	}
}

// ArtifactOptions change what Artifact makes.
type ArtifactOptions struct {
	// Type is the artifact type, "application/vnd.example.thing" when empty.
	Type string
	// Subject is the manifest that the artifact refers to.
	Subject *oci.Descriptor
	// Data is its one layer, "data" when empty.
	Data string
	// Annotations of the manifest.
	Annotations map[string]string
}

// Artifact makes an OCI artifact: a manifest with an empty config and one
// layer.
func Artifact(t testing.TB, o ArtifactOptions) Content {
	t.Helper()
	if o.Type == "" {
		o.Type = "application/vnd.example.thing"
	}
	if o.Data == "" {
		o.Data = "data"
	}
	config := oci.NewBlob(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	layer := oci.NewBlob(o.Type, []byte(o.Data))
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeManifest, ArtifactType: o.Type,
		Config: config.Descriptor, Layers: []oci.Descriptor{layer.Descriptor}, Subject: o.Subject, Annotations: o.Annotations,
	}
	return Content{
		Root:         encode(t, m.MediaType, Style{}, m, nil),
		ArtifactType: o.Type,
		Blobs:        []oci.Blob{config, layer},
	}
}
