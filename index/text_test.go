package index_test

import (
	"errors"
	"testing"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
)

// TestTextsThatJSONCannotHoldAreRefused: encoders write U+FFFD in their place.
func TestTextsThatJSONCannotHoldAreRefused(t *testing.T) {
	const bad = "\xff"
	entry := func(change func(*oci.Entry)) []index.Image {
		e := oci.Entry{Descriptor: oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: oci.NewBlob(oci.MediaTypeManifest, []byte("x")).Digest, Size: 1}}
		e.Platform = &oci.Platform{OS: "linux", Architecture: "amd64"}
		change(&e)
		return []index.Image{{Entry: e}}
	}
	none := func(*oci.Entry) {}
	for name, in := range map[string]struct {
		images []index.Image
		o      index.Options
	}{
		"annotation":    {entry(none), index.Options{Annotations: map[string]string{"a": bad}}},
		"key":           {entry(none), index.Options{Annotations: map[string]string{bad: "a"}}},
		"artifact type": {entry(none), index.Options{ArtifactType: bad}},
		"of an entry": {entry(none), index.Options{DescriptorAnnotations: func(oci.Entry) map[string]string {
			return map[string]string{"a": bad}
		}}},
		"variant":     {entry(func(e *oci.Entry) { e.Platform.Variant = bad }), index.Options{}},
		"os.features": {entry(func(e *oci.Entry) { e.Platform.OSFeatures = []string{bad} }), index.Options{}},
		"its type":    {entry(func(e *oci.Entry) { e.ArtifactType = bad }), index.Options{}},
	} {
		var text *oci.TextError
		if b, err := index.Assemble(in.images, in.o); !errors.As(err, &text) {
			t.Errorf("%s: %s, %v", name, b.Bytes, err)
		}
	}
	var text *oci.TextError
	m := oci.NewBlob(oci.MediaTypeManifest, []byte(`{"schemaVersion":2}`))
	if b, err := index.AnnotateManifest(m, map[string]string{"a": bad}); !errors.As(err, &text) {
		t.Errorf("%s, %v", b.Bytes, err)
	}
}
