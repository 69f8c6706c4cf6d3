package oci_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
)

func TestReferrer(t *testing.T) {
	config := `"config":{"mediaType":"application/x.config","digest":"` + digestA + `","size":3},"layers":[]`
	for name, c := range map[string]struct {
		mediaType, body string
		artifact        string
		annotations     map[string]string
	}{
		"artifact type":        {oci.MediaTypeManifest, `{"schemaVersion":2,"artifactType":"application/x.type",` + config + `,"annotations":{"a":"b"}}`, "application/x.type", map[string]string{"a": "b"}},
		"type of the config":   {oci.MediaTypeManifest, `{"schemaVersion":2,` + config + `}`, "application/x.config", nil},
		"index":                {oci.MediaTypeIndex, `{"schemaVersion":2,"artifactType":"application/x.type","manifests":[],"annotations":{"a":"b"}}`, "application/x.type", map[string]string{"a": "b"}},
		"index without a type": {oci.MediaTypeIndex, `{"schemaVersion":2,"manifests":[]}`, "", nil},
		"what cannot be read":  {oci.MediaTypeManifest, `{`, "", nil},
		"an index that cannot": {oci.MediaTypeIndex, `{`, "", nil},
	} {
		b := oci.NewBlob(c.mediaType, []byte(c.body))
		want := oci.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size, ArtifactType: c.artifact, Annotations: c.annotations}
		b.ArtifactType, b.Annotations = "application/x.listed", map[string]string{"listed": "so"}
		if diff := cmp.Diff(want, oci.Referrer(b)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
