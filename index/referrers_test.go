package index

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func TestReferrersOfOthersStayInTheList(t *testing.T) {
	d := func(name string) oci.Descriptor {
		return oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: digest.FromString(name), Size: 7, ArtifactType: "example/" + name, Annotations: map[string]string{"name": name}}
	}
	first, err := Referrers(nil, []oci.Descriptor{d("a"), d("b")})
	if err != nil {
		t.Fatal(err)
	}
	second, err := Referrers(&first, []oci.Descriptor{d("b"), d("c"), d("c")})
	if err != nil {
		t.Fatal(err)
	}
	idx, err := oci.ParseIndex(second)
	if err != nil {
		t.Fatal(err)
	}
	var got []oci.Descriptor
	for _, e := range idx.Manifests {
		got = append(got, e.Descriptor)
	}
	if diff := cmp.Diff([]oci.Descriptor{d("a"), d("b"), d("c")}, got); diff != "" {
		t.Error(diff)
	}
	again, err := Referrers(&second, []oci.Descriptor{d("a")})
	if err != nil || again.Digest != second.Digest {
		t.Errorf("a list that has it all changed: %s, %v; was %s", again.Digest, err, second.Digest)
	}
}
