package index

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold/oci"
)

// document is an index about to be written. Members, their order, the indent
// and the escapes are those of encoding/json over the image-spec's Index, which
// BuildKit and buildx write too: equal images give equal digests.
type document struct {
	SchemaVersion int               `json:"schemaVersion"`
	MediaType     string            `json:"mediaType"`
	ArtifactType  string            `json:"artifactType,omitempty"`
	Manifests     []json.RawMessage `json:"manifests"`
	Subject       *oci.Descriptor   `json:"subject,omitempty"`
	Annotations   map[string]string `json:"annotations,omitempty"`

	entries []oci.Entry
	// unknown members of the index that is edited, written last.
	unknown members
}

// The members that the image-spec's structs hold. Others are carried over from
// the JSON that an entry was read from.
var (
	indexNames      = []string{"schemaVersion", "mediaType", "artifactType", "manifests", "subject", "annotations"}
	descriptorNames = []string{"mediaType", "digest", "size", "urls", "annotations", "data", "platform", "artifactType"}
	platformNames   = []string{"architecture", "os", "os.version", "os.features", "variant"}
)

// blob writes d and reads it back: what this package makes, everybody who reads
// strictly can read.
func (d document) blob() (oci.Blob, error) {
	d.SchemaVersion = 2
	d.Manifests = make([]json.RawMessage, 0, len(d.entries))
	for _, e := range d.entries {
		raw, err := entryJSON(e)
		if err != nil {
			return oci.Blob{}, err
		}
		d.Manifests = append(d.Manifests, raw)
	}
	b, err := d.indented()
	if err != nil {
		return oci.Blob{}, err
	}
	if len(b) > oci.MaxManifestSize {
		return oci.Blob{}, &SizeError{Size: len(b), Limit: oci.MaxManifestSize}
	}
	blob := oci.NewBlob(d.MediaType, b)
	_, err = oci.ParseIndex(blob)
	return blob, err
}

func (d document) indented() ([]byte, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if b, err = appendMembers(b, d.unknown); err != nil {
		return nil, err
	}
	return json.MarshalIndent(json.RawMessage(b), "", "  ")
}

// entryJSON writes the known members of e from its descriptor and the unknown
// ones from its raw JSON.
func entryJSON(e oci.Entry) ([]byte, error) {
	known, err := json.Marshal(e.Descriptor)
	if err != nil || len(e.Raw) == 0 {
		return known, err
	}
	raw, err := readMembers(e.Raw)
	if err != nil {
		return nil, err
	}
	if known, err = keepPlatform(known, e, raw.get("platform")); err != nil {
		return nil, err
	}
	return appendMembers(known, raw.without(descriptorNames))
}

// keepPlatform carries over unknown members of a platform, such as the features
// of a Docker list.
func keepPlatform(known []byte, e oci.Entry, raw jsontext.Value) ([]byte, error) {
	if e.Platform == nil || raw.Kind() != jsontext.KindBeginObject {
		return known, nil
	}
	old, err := readMembers(raw)
	if err != nil {
		return nil, err
	}
	extra := old.without(platformNames)
	if len(extra) == 0 {
		return known, nil
	}
	platform, err := json.Marshal(e.Platform)
	if err != nil {
		return nil, err
	}
	if platform, err = appendMembers(platform, extra); err != nil {
		return nil, err
	}
	all, err := readMembers(known)
	if err != nil {
		return nil, err
	}
	for i := range all {
		if all[i].name == "platform" {
			all[i].value = platform
		}
	}
	return appendMembers([]byte("{}"), all)
}

// member is one member of a JSON object, members are all of one in its order.
type (
	member struct {
		name  string
		value jsontext.Value
	}
	members []member
)

func (m members) get(name string) jsontext.Value {
	for _, v := range m {
		if v.name == name {
			return v.value
		}
	}
	return nil
}

func (m members) without(names []string) members {
	return slices.DeleteFunc(slices.Clone(m), func(v member) bool { return slices.Contains(names, v.name) })
}

func readMembers(object []byte) (members, error) {
	dec := jsontext.NewDecoder(bytes.NewReader(object))
	tok, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	if tok.Kind() != jsontext.KindBeginObject {
		return nil, errors.New("entry: not a JSON object")
	}
	var out members
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		m := member{name: name.String()}
		value, err := dec.ReadValue()
		if err != nil {
			return nil, err
		}
		m.value = value.Clone()
		out = append(out, m)
	}
	return out, nil
}

// appendMembers writes m at the end of a JSON object.
func appendMembers(object []byte, m members) ([]byte, error) {
	out := bytes.TrimSuffix(slices.Clone(object), []byte("}"))
	for _, v := range m {
		name, err := json.Marshal(v.name)
		if err != nil {
			return nil, err
		}
		if len(out) > len("{") {
			out = append(out, ',')
		}
		out = append(append(append(out, name...), ':'), v.value...)
	}
	return append(out, '}'), nil
}

// base is an index that is edited.
type base struct {
	view    oci.Index
	unknown members
}

func readBase(b *oci.Blob) (base, error) {
	if b == nil {
		return base{}, nil
	}
	view, err := oci.ParseIndex(*b)
	if err != nil {
		return base{}, err
	}
	all, err := readMembers(b.Bytes)
	if err != nil {
		return base{}, err
	}
	return base{view: view, unknown: all.without(indexNames)}, nil
}
