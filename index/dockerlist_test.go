package index_test

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
)

// testdata/docker-list.json is what "docker manifest push" (CLI 28.2.2) stored.
func TestADockerListHasTheBytesThatDockerWrites(t *testing.T) {
	want, err := os.ReadFile("testdata/docker-list.json")
	if err != nil {
		t.Fatal(err)
	}
	view, err := oci.ParseIndex(oci.NewBlob("", want))
	if err != nil {
		t.Fatal(err)
	}
	var entries []oci.Descriptor
	for _, e := range view.Manifests {
		entries = append(entries, e.Descriptor)
	}
	got, err := index.DockerList(entries)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got.Bytes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheFirstEntryDecidesTheTypeOfADockerList(t *testing.T) {
	o := image(t, "a", "linux/amd64").Entry.Descriptor
	d := docker(image(t, "b", "linux/arm64")).Entry.Descriptor
	noted := d
	noted.Annotations = map[string]string{"a": "b"}
	for name, c := range map[string]struct {
		entries []oci.Descriptor
		want    string
	}{
		"OCI first":    {[]oci.Descriptor{o, d}, oci.MediaTypeIndex},
		"Docker first": {[]oci.Descriptor{d, o}, oci.MediaTypeDockerList},
		"annotated":    {[]oci.Descriptor{d, noted}, oci.MediaTypeIndex},
	} {
		b, err := index.DockerList(c.entries)
		if err != nil || b.MediaType != c.want {
			t.Errorf("%s: %s, %v", name, b.MediaType, err)
		}
	}
}

func TestADockerListOfNothingOrOfFaultyEntriesIsNotMade(t *testing.T) {
	if _, err := index.DockerList(nil); !errors.Is(err, index.ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
	d := image(t, "a", "linux/amd64").Entry.Descriptor
	d.Size = 0
	var bad *index.EntryError
	if _, err := index.DockerList([]oci.Descriptor{d}); !errors.As(err, &bad) {
		t.Errorf("no size: %v", err)
	}
}
