// Package index puts platform images together and takes indexes apart. It is
// the only maker of manifest bytes.
//
// [Flatten] and [Expand] read an index into images, each with its
// attestations; [Assemble] writes images into one index. Nothing here knows a
// registry, and the same input gives the same bytes: images stand in the order
// in which they are given, then their attestations in the order of the images.
// Child manifests are named, never touched. An entry that was read from an
// index keeps the members that this program does not know.
//
// Refused, with a typed error: two images for one platform
// ([*DuplicateError]), an image without a platform ([*NoPlatformError]), a
// result that readers would not take ([*SizeError], [*MediaTypeError],
// [*EntryError]), and an index without images ([ErrEmpty]).
//
// Read assemble.go first, then marshal.go (which bytes, and why), merge.go and
// flatten.go.
package index

import "github.com/manifold-oci/manifold/oci"

// Image is one entry-to-be of an index.
type Image struct {
	// Entry describes the image. Members of Entry.Descriptor are written as
	// they are; Entry.Raw, set when it was read from an index, adds the members
	// that Descriptor does not have.
	Entry oci.Entry
	// Source is the reference it came from, for messages.
	Source string
	// Attestations of this image: [Attest] makes an entry one of them.
	Attestations []oci.Entry
	// Artifact says that the entry is not an image that runs (its config is not
	// an image's), so that it needs no platform. Its place is beside images,
	// never alone.
	Artifact bool
}

// Options of [Assemble]. The zero value decides everything from the images.
type Options struct {
	// MediaType of the result, [oci.MediaTypeIndex] or
	// [oci.MediaTypeDockerList]. Empty decides: that of Base as long as it can
	// hold the result; else a Docker list when every entry is of a Docker type
	// and nothing is annotated; else an OCI index.
	MediaType string
	// Annotations of the index; they replace those of Base one by one.
	Annotations map[string]string
	// DescriptorAnnotations returns annotations to set on the entry of an image
	// or artifact; nil for none. Attestations are not asked about.
	DescriptorAnnotations func(oci.Entry) map[string]string
	// ArtifactType of the index.
	ArtifactType string
	// Base is the index that is being edited: its annotations, artifactType,
	// subject and unknown members are kept. Its entries are not, they are given
	// as images.
	Base *oci.Blob
}
