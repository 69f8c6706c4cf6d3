package dockermanifest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// FuzzEntry: whatever is read from a file can be saved and reads back equal.
func FuzzEntry(f *testing.F) {
	d := string(digest.FromString("x"))
	f.Add([]byte(`{"Ref":"r/a:1","Descriptor":{"mediaType":"` + oci.MediaTypeManifest + `","digest":"` + d + `","size":7,"platform":{"architecture":"arm","os":"linux"}},"Raw":"e30=","OCIManifest":{"a":"<"}}`))
	f.Add([]byte(`{"Ref":"r/a","Digest":"` + d + `","Platform":{"architecture":"arm","os":"linux"}}`))
	f.Add([]byte(`{"Ref":"a","Descriptor":{"digest":"` + d + `"},"List":"b","Source":"c","Attestations":[{"Descriptor":{"digest":"` + d + `"},"Raw":"e30="}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, err := decode(b)
		if err != nil {
			return
		}
		text, err := encode(first)
		if err != nil {
			t.Fatal(err)
		}
		again, err := decode(text)
		if err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if diff := cmp.Diff(first.Descriptor, again.Descriptor); diff != "" || first.Ref != again.Ref || first.Source != again.Source || string(first.Raw) != string(again.Raw) {
			t.Errorf("(-first +again):\n%s", diff)
		}
	})
}
