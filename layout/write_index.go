package layout

import (
	"bytes"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold/oci"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// What a layout begins as.
const (
	marker     = `{"imageLayoutVersion":"` + ocispec.ImageLayoutVersion + `"}`
	emptyIndex = `{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[]}`
)

func bytesOf(b oci.Blob) io.ReadCloser { return io.NopCloser(bytes.NewReader(b.Bytes)) }

// edited returns index.json with other entries and everything else as it was.
func edited(old []byte, f func([]oci.Entry) ([]oci.Entry, error)) ([]byte, error) {
	idx, err := oci.ParseIndex(oci.NewBlob("", old))
	if err != nil {
		return nil, err
	}
	entries, err := f(idx.Manifests)
	if err != nil {
		return nil, err
	}
	var members map[string]jsontext.Value
	if err := json.Unmarshal(old, &members); err != nil {
		return nil, err
	}
	raws := make([]jsontext.Value, len(entries))
	for i, e := range entries {
		raws[i] = e.Raw
	}
	if members["manifests"], err = json.Marshal(raws); err != nil {
		return nil, err
	}
	return object(members)
}

// object writes members with those of an index first and the others sorted.
func object(members map[string]jsontext.Value) ([]byte, error) {
	names := slices.Sorted(maps.Keys(members))
	rank := func(name string) int {
		if i := slices.Index([]string{"schemaVersion", "mediaType", "manifests"}, name); i >= 0 {
			return i
		}
		return len(names)
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out)
	if err := enc.WriteToken(jsontext.BeginObject); err != nil {
		return nil, err
	}
	for _, name := range names {
		if err := enc.WriteToken(jsontext.String(name)); err != nil {
			return nil, err
		}
		if err := enc.WriteValue(members[name]); err != nil {
			return nil, err
		}
	}
	if err := enc.WriteToken(jsontext.EndObject); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// withTag puts an entry for b in the place of the one that had the tag, or last.
// Without a tag, any entry for b will do.
func withTag(entries []oci.Entry, tag string, b oci.Blob) ([]oci.Entry, error) {
	d := b.Descriptor
	if d.Annotations = nil; tag != "" {
		d.Annotations = map[string]string{ocispec.AnnotationRefName: tag}
	} else if slices.ContainsFunc(entries, func(e oci.Entry) bool { return e.Digest == d.Digest }) {
		return entries, nil
	}
	raw, err := json.Marshal(d, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(entries, func(e oci.Entry) bool { return hasTag(e, tag) })
	if at < 0 {
		at = len(entries)
	}
	return slices.Insert(withoutTag(entries, tag), at, oci.Entry{Descriptor: d, Raw: raw}), nil
}

// withoutTag drops the entries that a tag finds.
func withoutTag(entries []oci.Entry, tag string) []oci.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e oci.Entry) bool { return hasTag(e, tag) })
}

func hasTag(e oci.Entry, tag string) bool { return slices.Contains(Tags(e), tag) }
