package buildkit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

type object = map[string]any

func base64Of(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func text(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func entry(b oci.Blob, annotations object) object {
	return object{"mediaType": b.MediaType, "digest": b.Digest, "size": b.Size, "annotations": annotations}
}

func put(t *testing.T, s *Store, mediaType string, v any) oci.Blob {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	b := oci.NewBlob(mediaType, raw)
	if err := send(t, s, b.Digest.String(), b.Descriptor, raw); err != nil {
		t.Fatal(err)
	}
	return b
}

func manifestOf(config oci.Blob, more object) object {
	m := object{"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": entry(config, nil), "layers": []object{}}
	for k, v := range more {
		m[k] = v
	}
	return m
}

func speaksOf(d digest.Digest) object {
	return object{oci.AnnotationReferenceType: "attestation-manifest", oci.AnnotationReferenceDigest: d}
}

// What a node sends is held to what it was asked for: one image, and
// attestations of that image alone.
func TestExportThatDoesNotFitIsRefused(t *testing.T) {
	s := NewStore(t.TempDir())
	config := put(t, s, oci.MediaTypeConfig, object{"os": "linux", "architecture": "amd64"})
	missing := oci.NewBlob(oci.MediaTypeConfig, []byte("never sent"))
	image := put(t, s, oci.MediaTypeManifest, manifestOf(config, nil))
	second := put(t, s, oci.MediaTypeManifest, manifestOf(config, object{"annotations": object{"a": "b"}}))
	attestation := put(t, s, oci.MediaTypeManifest, manifestOf(config, object{"annotations": object{"c": "d"}}))
	foreign := put(t, s, oci.MediaTypeManifest, manifestOf(config, object{"subject": entry(second, nil)}))
	hollow := put(t, s, oci.MediaTypeManifest, manifestOf(missing, nil))
	nested := put(t, s, oci.MediaTypeIndex, object{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []object{}})

	for name, c := range map[string]struct {
		entries []object
		want    string
	}{
		"fits":               {[]object{entry(image, nil), entry(attestation, speaksOf(image.Digest))}, ""},
		"no image":           {[]object{entry(attestation, speaksOf(image.Digest))}, "0 images"},
		"two images":         {[]object{entry(image, nil), entry(second, nil)}, "2 images"},
		"other image":        {[]object{entry(image, nil), entry(attestation, speaksOf(second.Digest))}, "it speaks of " + second.Digest.String()},
		"other subject":      {[]object{entry(image, nil), entry(foreign, speaksOf(image.Digest))}, "its subject is"},
		"nested":             {[]object{entry(image, nil), entry(nested, nil)}, "is a " + oci.MediaTypeIndex},
		"statement not sent": {[]object{entry(image, nil), entry(hollow, speaksOf(image.Digest))}, "did not send"},
		"manifest not sent":  {[]object{entry(image, nil), entry(oci.NewBlob(oci.MediaTypeManifest, []byte("{}")), speaksOf(image.Digest))}, "not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			root := put(t, s, oci.MediaTypeIndex, object{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": c.entries, "annotations": object{"case": name}})
			got, err := readReceived(s, root.Descriptor)
			if c.want == "" {
				if err != nil || got.image.Digest != image.Digest || len(got.attestations) != 1 {
					t.Errorf("%+v, %v", got, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestExportWithoutIndexIsAnImageWithoutAttestations(t *testing.T) {
	s := NewStore(t.TempDir())
	config := put(t, s, oci.MediaTypeConfig, object{})
	image := put(t, s, oci.MediaTypeManifest, manifestOf(config, nil))
	d := image.Descriptor
	d.Annotations = map[string]string{annotationCreated: "2026-01-01T00:00:00Z", "a": "b"}
	got, err := readReceived(s, d)
	if err != nil || len(got.image.Annotations) != 1 || string(got.image.Bytes) != string(image.Bytes) || len(got.attestations) != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	d.MediaType = "application/json"
	var export *ExportError
	if _, err := readReceived(s, d); !errors.As(err, &export) {
		t.Errorf("error %v", err)
	}
}
