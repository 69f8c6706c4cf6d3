package spec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Source reads a source as it is written on a command line: a bare digest, or
// what [ref.ParseLocation] reads. The error is a [*ref.Error].
func Source(s string) (manifold.Input, error) {
	if d := digest.Digest(s); d.Validate() == nil {
		return manifold.Input{Digest: d}, known(d)
	}
	l, err := ref.ParseLocation(s)
	return manifold.Input{Location: l}, err
}

// known refuses the digest of nothing, as a reference with it is.
func known(d digest.Digest) error {
	_, err := ref.Parse("image@" + d.String())
	var e *ref.Error
	if errors.As(err, &e) {
		return &ref.Error{Name: d.String(), Reason: e.Reason}
	}
	return err
}

// file is a descriptor, with the members by which other JSON is recognised.
type file struct {
	oci.Descriptor
	SchemaVersion int             `json:"schemaVersion"`
	Manifests     jsontext.Value  `json:"manifests"`
	Layers        jsontext.Value  `json:"layers"`
	Metadata      *oci.Descriptor `json:"containerimage.descriptor"`
	Digested      digest.Digest   `json:"containerimage.digest"`
	Name          string          `json:"image.name"`
}

// File reads a file with one source: a digest, a reference or another location,
// the JSON of a descriptor, or the metadata file of a build. Space around it
// does not count. Errors: [*Error], [*ref.Error].
func File(b []byte) (manifold.Input, error) {
	if len(b) > MaxSize {
		return manifold.Input{}, &Error{Reason: fmt.Sprintf("%d bytes, the limit is %d", len(b), MaxSize)}
	}
	b = bytes.TrimSpace(b)
	switch {
	case len(b) == 0:
		return manifold.Input{}, &Error{Reason: "the file is empty"}
	case b[0] == '{':
		return descriptor(b)
	case bytes.ContainsAny(b, "\r\n"):
		return manifold.Input{}, &Error{Line: 2, Reason: "more than one line: a file names one source"}
	}
	return Source(string(b))
}

func descriptor(b []byte) (manifold.Input, error) {
	var f file
	if err := json.Unmarshal(b, &f); err != nil {
		return manifold.Input{}, &Error{Reason: "is not the JSON of a descriptor: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	switch {
	case f.SchemaVersion != 0 || f.Manifests != nil || f.Layers != nil:
		return manifold.Input{}, &Error{Reason: "is a manifest or an index, want a descriptor of one, a digest or a reference"}
	case f.Metadata != nil || f.Digested != "":
		return metadata(f)
	}
	d := f.Descriptor
	if err := check(d); err != nil {
		return manifold.Input{}, err
	}
	return manifold.Input{Digest: d.Digest, Descriptor: &d}, nil
}

func check(d oci.Descriptor) error {
	if err := d.Digest.Validate(); err != nil {
		return &Error{Reason: fmt.Sprintf("digest %q: %v", d.Digest, err)}
	}
	if d.Size < 0 {
		return &Error{Reason: fmt.Sprintf("size %d is negative", d.Size)}
	}
	return known(d.Digest)
}

// metadata is what "docker buildx build --metadata-file" writes. It names every
// tag that was pushed; they are all in one place, or the first will do.
func metadata(f file) (manifold.Input, error) {
	d := oci.Descriptor{Digest: f.Digested}
	if f.Metadata != nil {
		d = oci.Descriptor{Digest: f.Metadata.Digest, MediaType: f.Metadata.MediaType, Size: f.Metadata.Size}
	}
	if err := check(d); err != nil {
		return manifold.Input{}, err
	}
	in := manifold.Input{Digest: d.Digest, Descriptor: &d}
	name, _, _ := strings.Cut(f.Name, ",")
	if name == "" {
		return in, nil
	}
	r, err := ref.Parse(name)
	in.Location.Reference = r.WithDigest(d.Digest)
	return in, err
}
