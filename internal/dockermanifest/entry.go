package dockermanifest

import (
	"bytes"
	"encoding/json"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Entry is one image of a list.
type Entry struct {
	// Ref names the image; its repository holds it.
	Ref        ref.Reference
	Descriptor oci.Descriptor
	// Raw are the bytes of the manifest, nil for an entry that a Docker of the
	// 20.10 kind has written.
	Raw []byte
	// View is the manifest as the store has it: equal JSON, other bytes.
	View jsontext.Value
	// Attestations of the image. Only this program writes them.
	Attestations []Attestation
	// Source is the index that the image was listed in, the zero value for an
	// image that was named itself.
	Source ref.Reference

	// list is the name of the list, "" when Docker has written the entry.
	list string
	// file is the name of the entry's file, "" before it is saved.
	file string
}

// Attestation is a manifest about an image.
type Attestation struct {
	Descriptor oci.Descriptor
	Raw        []byte
}

// newEntry returns the entry of an image that was read from a registry.
func newEntry(name ref.Reference, b oci.Blob, p *oci.Platform) Entry {
	d := oci.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size, Platform: p}
	return Entry{Ref: name, Descriptor: d, Raw: b.Bytes, View: jsontext.Value(b.Bytes)}
}

// stored is the JSON of an entry: the members of docker/cli (manifest/types,
// ImageManifest), then those of its older releases, then ours, which Docker
// does not look at.
type stored struct {
	Ref              string
	Descriptor       oci.Descriptor
	Raw              []byte         `json:",omitempty"`
	SchemaV2Manifest jsontext.Value `json:",omitempty"`
	OCIManifest      jsontext.Value `json:",omitempty"`

	Digest   digest.Digest `json:",omitempty"`
	Platform *oci.Platform `json:",omitempty"`

	List         string        `json:",omitempty"`
	Source       string        `json:",omitempty"`
	Attestations []Attestation `json:",omitempty"`
}

// shown is what "inspect --verbose" prints of an entry.
type shown struct {
	Ref              string
	Descriptor       oci.Descriptor
	Raw              []byte         `json:",omitempty"`
	SchemaV2Manifest jsontext.Value `json:",omitempty"`
	OCIManifest      jsontext.Value `json:",omitempty"`
}

func decode(b []byte) (Entry, error) {
	var s stored
	if err := jsonv2.Unmarshal(b, &s); err != nil {
		return Entry{}, err
	}
	name, err := ref.Parse(s.Ref)
	if err != nil {
		return Entry{}, err
	}
	e := Entry{Ref: name, Descriptor: s.Descriptor, Raw: s.Raw, View: s.SchemaV2Manifest, Attestations: s.Attestations, list: s.List}
	if e.View == nil {
		e.View = s.OCIManifest
	}
	if s.Digest != "" { // before Docker 18.09
		e.Descriptor = oci.Descriptor{Digest: s.Digest, Platform: s.Platform}
	}
	if s.Source != "" {
		if e.Source, err = ref.Parse(s.Source); err != nil {
			return Entry{}, err
		}
	}
	return e, e.Descriptor.Digest.Validate()
}

// encode writes the bytes that Docker's encoding/json writes, and ours after
// them.
func encode(e Entry) ([]byte, error) {
	s := stored{Ref: e.Ref.String(), Descriptor: e.Descriptor, Raw: e.Raw, List: e.list, Attestations: e.Attestations}
	s.SchemaV2Manifest, s.OCIManifest = e.views()
	if e.Source != (ref.Reference{}) {
		s.Source = e.Source.String()
	}
	return json.Marshal(s)
}

// views puts the view where Docker expects it for the media type.
func (e Entry) views() (docker, ociView jsontext.Value) {
	if e.Descriptor.MediaType == oci.MediaTypeManifest {
		return nil, e.View
	}
	return e.View, nil
}

func (e Entry) shown() shown {
	s := shown{Ref: e.Ref.String(), Descriptor: e.Descriptor, Raw: e.Raw}
	s.SchemaV2Manifest, s.OCIManifest = e.views()
	return s
}

// blob returns the manifest, checked.
func (e Entry) blob() (oci.Blob, error) {
	b := oci.NewBlob(e.Descriptor.MediaType, bytes.Clone(e.Raw))
	if got := e.Descriptor.Digest.Algorithm().FromBytes(e.Raw); got != e.Descriptor.Digest {
		return b, &BytesError{Ref: e.Ref.String(), Want: e.Descriptor.Digest, Got: got}
	}
	b.Digest = e.Descriptor.Digest
	return b, nil
}

func (a Attestation) entry(image Entry) Entry {
	e := Entry{Ref: image.Ref.WithDigest(a.Descriptor.Digest), Descriptor: a.Descriptor, Raw: a.Raw}
	e.View = a.Raw
	return e
}
