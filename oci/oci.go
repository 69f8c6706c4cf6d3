// Package oci reads image manifests, indexes and configs strictly, and keeps
// their bytes.
//
// A manifest enters as a [Blob]: bytes and the descriptor that was computed
// from them. It leaves as the same bytes. [Index], [Manifest] and [Config] are
// views parsed from the bytes; nothing in this package turns a view back into
// JSON (package index makes new manifests, nobody else does).
//
// Refused, with a [*SyntaxError], before anyone can act on it: duplicate keys,
// keys that differ from a known one only in letter case, an index that also
// has layers or a config, a byte order mark, trailing data, Docker schema 1,
// and bodies over [MaxManifestSize]. Unknown fields are kept with the bytes.
//
// Read oci.go first, then strict.go (what is refused and why), platform.go and
// walk.go.
package oci

import (
	_ "crypto/sha256" // digests of content are sha256 unless a descriptor says sha512
	_ "crypto/sha512"
	"fmt"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Descriptor and Platform are those of the OCI image specification.
type (
	Descriptor = ocispec.Descriptor
	Platform   = ocispec.Platform
)

// Media types of manifests, and of the configs whose platform is read.
const (
	MediaTypeIndex          = ocispec.MediaTypeImageIndex
	MediaTypeManifest       = ocispec.MediaTypeImageManifest
	MediaTypeConfig         = ocispec.MediaTypeImageConfig
	MediaTypeDockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
	MediaTypeDockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	MediaTypeDockerConfig   = "application/vnd.docker.container.image.v1+json"
)

// MaxManifestSize bounds a manifest or index, in bytes: the size that the
// distribution specification asks registries to accept and that most refuse to
// exceed. More is never read into memory.
const MaxManifestSize = 4 << 20

// MaxConfigSize bounds an image config when it is read for its platform, in
// bytes. Configs with thousands of history lines stay far below it.
const MaxConfigSize = 8 << 20

// Annotations with which BuildKit binds an attestation to its image, and the
// value of the first.
const (
	AnnotationReferenceType   = "vnd.docker.reference.type"
	AnnotationReferenceDigest = "vnd.docker.reference.digest"
	ReferenceTypeAttestation  = "attestation-manifest"
)

// Blob is content that fits in memory, in practice a manifest or an index: its
// bytes, and the descriptor computed from them.
type Blob struct {
	Descriptor
	Bytes []byte
}

// NewBlob returns the blob of b under a media type, with its sha256 digest.
func NewBlob(mediaType string, b []byte) Blob {
	return Blob{Bytes: b, Descriptor: Descriptor{
		MediaType: mediaType,
		Digest:    digest.FromBytes(b),
		Size:      int64(len(b)),
	}}
}

// IsIndex reports whether a media type is an OCI index or a Docker manifest
// list.
func IsIndex(mediaType string) bool {
	return mediaType == MediaTypeIndex || mediaType == MediaTypeDockerList
}

// IsImageManifest reports whether a media type is an OCI or Docker image
// manifest.
func IsImageManifest(mediaType string) bool {
	return mediaType == MediaTypeManifest || mediaType == MediaTypeDockerManifest
}

// IsManifest reports whether a media type is stored under a registry's
// manifests, not its blobs.
func IsManifest(mediaType string) bool {
	return IsIndex(mediaType) || IsImageManifest(mediaType)
}

// IsAttestation reports whether an entry of an index is an attestation, and the
// digest of the image it speaks of, empty if the annotation is missing.
func IsAttestation(d Descriptor) (subject digest.Digest, ok bool) {
	if d.Annotations[AnnotationReferenceType] != ReferenceTypeAttestation {
		return "", false
	}
	return digest.Digest(d.Annotations[AnnotationReferenceDigest]), true
}

// MismatchError reports content whose bytes are not what was asked for.
type MismatchError struct {
	// What was compared: "digest", "size" or "media type".
	What string
	// Want and Got are printed as they are.
	Want, Got string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s is %s, want %s", e.What, e.Got, e.Want)
}

// Check compares b with the digest and size of want. A zero size or an empty
// digest in want is not compared. The error is a [*MismatchError].
func Check(want Descriptor, b []byte) error {
	if want.Size != 0 && want.Size != int64(len(b)) {
		return &MismatchError{What: "size", Want: fmt.Sprint(want.Size), Got: fmt.Sprint(len(b))}
	}
	if want.Digest == "" {
		return nil
	}
	if err := want.Digest.Validate(); err != nil {
		return fmt.Errorf("digest %q: %w", want.Digest, err)
	}
	if got := want.Digest.Algorithm().FromBytes(b); got != want.Digest {
		return &MismatchError{What: "digest", Want: want.Digest.String(), Got: got.String()}
	}
	return nil
}
