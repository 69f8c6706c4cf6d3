package oci

import (
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/opencontainers/go-digest"
)

// Index is a view of an index or manifest list.
type Index struct {
	// MediaType is the field of the body, or what the blob came with.
	MediaType    string
	ArtifactType string
	Manifests    []Entry
	Subject      *Descriptor
	Annotations  map[string]string
}

// Entry is one descriptor of an index, with the JSON it was read from, so that
// an editor can keep members that this package does not know.
type Entry struct {
	Descriptor
	// Raw is the entry's JSON object as it stands in the index.
	Raw jsontext.Value
}

// Manifest is a view of an image manifest.
type Manifest struct {
	MediaType    string
	ArtifactType string
	Config       Descriptor
	Layers       []Descriptor
	Subject      *Descriptor
	Annotations  map[string]string
}

// Config is the part of an image config that says where the image runs.
type Config struct {
	Platform Platform
}

// body is the union of both manifest kinds, to notice when one is both.
type body struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType"`
	Config        *Descriptor       `json:"config"`
	Layers        []Descriptor      `json:"layers"`
	Manifests     jsontext.Value    `json:"manifests"`
	Subject       *Descriptor       `json:"subject"`
	Annotations   map[string]string `json:"annotations"`
	FSLayers      jsontext.Value    `json:"fsLayers"`
	Signatures    jsontext.Value    `json:"signatures"`
}

// readBody parses and settles the media type: the body's own field and the one
// that the content came with must not contradict each other (image-spec,
// GHSA-qq97-vm5h-rrhg).
func readBody(b Blob) (body, string, error) {
	var v body
	if len(b.Bytes) > MaxManifestSize {
		return v, "", &SyntaxError{Reason: fmt.Sprintf("%d bytes, the limit is %d", len(b.Bytes), MaxManifestSize)}
	}
	if err := unmarshal(b.Bytes, manifestKind, &v); err != nil {
		return v, "", err
	}
	if v.SchemaVersion == 1 || v.FSLayers != nil || v.Signatures != nil {
		return v, "", &SyntaxError{Reason: "Docker schema 1 is not supported"}
	}
	if v.SchemaVersion != 2 {
		return v, "", &SyntaxError{Field: "/schemaVersion", Reason: fmt.Sprintf("%d, want 2", v.SchemaVersion)}
	}
	if v.Manifests != nil && (v.Config != nil || v.Layers != nil) {
		return v, "", &SyntaxError{Reason: "has manifests and also config or layers: an index or an image, not both"}
	}
	mediaType := v.MediaType
	switch {
	case mediaType == "":
		mediaType = b.MediaType
	case IsManifest(b.MediaType) && b.MediaType != mediaType:
		return v, "", &SyntaxError{Field: "/mediaType", Reason: fmt.Sprintf("%q, but the content came as %q", mediaType, b.MediaType)}
	}
	if mediaType == "" {
		if mediaType = MediaTypeManifest; v.Manifests != nil {
			mediaType = MediaTypeIndex
		}
	}
	return v, mediaType, nil
}

// DetectMediaType reads the media type of a manifest from its body, and from
// the shape of the body when the field is absent. hint is what the content came
// with, or "". The error is a [*SyntaxError].
func DetectMediaType(hint string, b []byte) (string, error) {
	_, mediaType, err := readBody(Blob{Bytes: b, Descriptor: Descriptor{MediaType: hint}})
	return mediaType, err
}

// BodyMediaType reads the mediaType member of a manifest or index, "" when the
// body has none. The error is a [*SyntaxError].
func BodyMediaType(b []byte) (string, error) {
	v, _, err := readBody(Blob{Bytes: b})
	return v.MediaType, err
}

// ParseIndex reads an index or manifest list. The error is a [*SyntaxError].
func ParseIndex(b Blob) (Index, error) {
	v, mediaType, err := readBody(b)
	if err != nil {
		return Index{}, err
	}
	if !IsIndex(mediaType) {
		return Index{}, &SyntaxError{Field: "/mediaType", Reason: fmt.Sprintf("%q is not an index", mediaType)}
	}
	if v.Config != nil || v.Layers != nil {
		return Index{}, &SyntaxError{Reason: "came as an index but has config or layers"}
	}
	if err := checkSubject(v.Subject); err != nil {
		return Index{}, err
	}
	idx := Index{MediaType: mediaType, ArtifactType: v.ArtifactType, Subject: v.Subject, Annotations: v.Annotations}
	if v.Manifests == nil {
		return Index{}, &SyntaxError{Field: "/manifests", Reason: "missing"}
	}
	var raws []jsontext.Value
	if err := unmarshalValue(v.Manifests, &raws); err != nil {
		return Index{}, err
	}
	for i, raw := range raws {
		e := Entry{Raw: raw}
		if err := unmarshalValue(raw, &e.Descriptor); err != nil {
			return Index{}, inEntry(i, err)
		}
		if err := checkEntry(e.Descriptor); err != nil {
			return Index{}, inEntry(i, err)
		}
		idx.Manifests = append(idx.Manifests, e)
	}
	return idx, nil
}

// ParseManifest reads an image manifest. The error is a [*SyntaxError].
func ParseManifest(b Blob) (Manifest, error) {
	v, mediaType, err := readBody(b)
	if err != nil {
		return Manifest{}, err
	}
	if !IsImageManifest(mediaType) {
		return Manifest{}, &SyntaxError{Field: "/mediaType", Reason: fmt.Sprintf("%q is not an image manifest", mediaType)}
	}
	if v.Manifests != nil {
		return Manifest{}, &SyntaxError{Reason: "came as an image manifest but has manifests"}
	}
	if v.Config == nil {
		return Manifest{}, &SyntaxError{Field: "/config", Reason: "missing"}
	}
	if err := checkSubject(v.Subject); err != nil {
		return Manifest{}, err
	}
	m := Manifest{MediaType: mediaType, ArtifactType: v.ArtifactType, Config: *v.Config, Layers: v.Layers, Subject: v.Subject, Annotations: v.Annotations}
	if err := checkDescriptor(m.Config); err != nil {
		return Manifest{}, at("/config", err)
	}
	for i, l := range m.Layers {
		if err := checkDescriptor(l); err != nil {
			return Manifest{}, at(fmt.Sprintf("/layers/%d", i), err)
		}
	}
	return m, nil
}

// ParseConfig reads the platform of an image config. Other members are not
// looked at. A config over [MaxConfigSize] is refused, as are names that differ
// from a platform's only in letter case. The error is a [*SyntaxError].
func ParseConfig(b []byte) (Config, error) {
	var v struct {
		Architecture string   `json:"architecture"`
		OS           string   `json:"os"`
		OSVersion    string   `json:"os.version"`
		OSFeatures   []string `json:"os.features"`
		Variant      string   `json:"variant"`
	}
	if len(b) > MaxConfigSize {
		return Config{}, &SyntaxError{Reason: fmt.Sprintf("%d bytes, the limit is %d", len(b), MaxConfigSize)}
	}
	if err := unmarshal(b, configKind, &v); err != nil {
		return Config{}, err
	}
	return Config{Platform: Platform{
		Architecture: v.Architecture, OS: v.OS, OSVersion: v.OSVersion, OSFeatures: v.OSFeatures, Variant: v.Variant,
	}}, nil
}

// IsImageConfig reports whether a config has a platform to read; an artifact's
// has none.
func IsImageConfig(mediaType string) bool {
	return mediaType == MediaTypeConfig || mediaType == MediaTypeDockerConfig
}

func checkDescriptor(d Descriptor) error {
	if d.Digest == "" {
		return &SyntaxError{Field: "/digest", Reason: "missing"}
	}
	if err := d.Digest.Validate(); err != nil {
		return &SyntaxError{Field: "/digest", Reason: fmt.Sprintf("%q: %v", d.Digest, err)}
	}
	if d.Size < 0 {
		return &SyntaxError{Field: "/size", Reason: fmt.Sprintf("%d is negative", d.Size)}
	}
	return nil
}

// checkEntry checks an entry of an index. Without a media type nobody knows
// whether it is a manifest, and a reader that guesses loses a child.
func checkEntry(d Descriptor) error {
	if d.MediaType == "" {
		return &SyntaxError{Field: "/mediaType", Reason: "missing"}
	}
	return checkDescriptor(d)
}

func checkSubject(d *Descriptor) error {
	if d == nil {
		return nil
	}
	return at("/subject", checkDescriptor(*d))
}

func inEntry(i int, err error) error { return at(fmt.Sprintf("/manifests/%d", i), err) }

// at prefixes the place of a syntax error found in a part of the document.
func at(prefix string, err error) error {
	var s *SyntaxError
	if errors.As(err, &s) {
		return &SyntaxError{Field: prefix + s.Field, Reason: s.Reason}
	}
	return err
}

// Type says what kind of artifact a manifest is: its artifact type, or the media
// type of its config where it has none.
func (m Manifest) Type() string {
	if m.ArtifactType != "" {
		return m.ArtifactType
	}
	return m.Config.MediaType
}

// Referrer describes a manifest the way lists of referrers show it
// (distribution-spec, "Listing Referrers"): with its artifact type, or that of its
// config, and its own annotations. What cannot be read has neither.
func Referrer(b Blob) Descriptor {
	d := Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size}
	if IsIndex(b.MediaType) {
		if idx, err := ParseIndex(b); err == nil {
			d.ArtifactType, d.Annotations = idx.ArtifactType, idx.Annotations
		}
		return d
	}
	if m, err := ParseManifest(b); err == nil {
		d.ArtifactType, d.Annotations = m.Type(), m.Annotations
	}
	return d
}

// References lists what a manifest or index points at, in the order in which it
// is listed: entries of an index; config, then layers of an image. The subject
// is not one of them, it is pointed at from outside.
func References(b Blob) ([]Descriptor, error) {
	mediaType, err := DetectMediaType(b.MediaType, b.Bytes)
	if err != nil {
		return nil, err
	}
	b.MediaType = mediaType
	if IsIndex(mediaType) {
		idx, err := ParseIndex(b)
		if err != nil {
			return nil, err
		}
		out := make([]Descriptor, len(idx.Manifests))
		for i, e := range idx.Manifests {
			out[i] = e.Descriptor
		}
		return out, nil
	}
	m, err := ParseManifest(b)
	if err != nil {
		return nil, err
	}
	return append([]Descriptor{m.Config}, m.Layers...), nil
}

// Unique returns descs without repeated digests, first occurrence kept.
func Unique(descs []Descriptor) []Descriptor {
	seen := make(map[digest.Digest]bool, len(descs))
	out := make([]Descriptor, 0, len(descs))
	for _, d := range descs {
		if !seen[d.Digest] {
			seen[d.Digest] = true
			out = append(out, d)
		}
	}
	return out
}
