package index

import (
	"encoding/json"
	"fmt"

	"github.com/manifold-oci/manifold/oci"
)

// AnnotateManifest returns an image manifest with annotations set, which is
// another manifest with another digest: whatever speaks of the old one, as
// attestations and signatures do, does not speak of it. Everything else is kept,
// unknown members too. With nothing to change the manifest is returned as it
// is. Errors: those of [oci.ParseManifest]; [*MediaTypeError] for a Docker
// manifest, which cannot hold annotations; [*SizeError]; [*oci.TextError].
func AnnotateManifest(b oci.Blob, annotations map[string]string) (oci.Blob, error) {
	if err := oci.CheckAnnotations(annotations); err != nil {
		return oci.Blob{}, err
	}
	view, err := oci.ParseManifest(b)
	if err != nil {
		return oci.Blob{}, fmt.Errorf("%s: %w", b.Digest, err)
	}
	if hasAll(view.Annotations, annotations) {
		return b, nil
	}
	if view.MediaType != oci.MediaTypeManifest {
		return oci.Blob{}, &MediaTypeError{MediaType: view.MediaType, Reason: fmt.Sprintf("%s cannot hold annotations", b.Digest)}
	}
	all, err := readMembers(b.Bytes)
	if err != nil {
		return oci.Blob{}, err
	}
	value, err := json.Marshal(overlay(view.Annotations, annotations))
	if err != nil {
		return oci.Blob{}, err
	}
	out, err := appendMembers([]byte("{}"), all.with("annotations", value))
	if err != nil {
		return oci.Blob{}, err
	}
	if out, err = json.MarshalIndent(json.RawMessage(out), "", "  "); err != nil {
		return oci.Blob{}, err
	}
	if len(out) > oci.MaxManifestSize {
		return oci.Blob{}, &SizeError{Size: len(out), Limit: oci.MaxManifestSize}
	}
	made := oci.NewBlob(view.MediaType, out)
	_, err = oci.ParseManifest(made)
	return made, err
}

func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if now, ok := have[k]; !ok || now != v {
			return false
		}
	}
	return true
}

// with sets a member, in its place or at the end.
func (m members) with(name string, value []byte) members {
	out := append(members(nil), m...)
	for i := range out {
		if out[i].name == name {
			out[i].value = value
			return out
		}
	}
	return append(out, member{name: name, value: value})
}
