package audit_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func everything(m *memory) oci.Blob {
	amd := m.labelled("linux/amd64")
	amd.Annotations = map[string]string{"note": "1"}
	inner := m.index(m.labelled("linux/s390x"))
	return m.index(amd, m.image("windows(10.0.17763.1)/amd64"), inner.Descriptor, m.artifact(),
		m.attestation(digest.FromString("gone")), m.attestation(amd.Digest))
}

// The document is an interface: scripts read it.
func TestTheJSONOfATreeNeverChanges(t *testing.T) {
	m := newMemory()
	got, err := audit.Inspect(t.Context(), m, everything(m))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.MarshalIndent(got, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/tree.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(b)+"\n"); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Inspect asks for no layer, and for a config only where no label says the
// platform.
func TestInspectReadsOnlyWhatItHasTo(t *testing.T) {
	m := newMemory()
	if _, err := audit.Inspect(t.Context(), m, everything(m)); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for what, n := range m.asked {
		verb, _, _ := strings.Cut(what, " ")
		count[verb] += n
	}
	if diff := cmp.Diff(map[string]int{"fetch": 7, "open": 1}, count); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestInspectOfAnImageAlone(t *testing.T) {
	m := newMemory()
	a := m.image("linux/arm/v6")
	got, err := audit.Inspect(t.Context(), m, m.manifests[a.Digest])
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Images) != 1 || got.MediaType != oci.MediaTypeManifest || got.Digest != a.Digest {
		t.Fatalf("%+v", got)
	}
	if img := got.Images[0]; img.Platform != "linux/arm/v6" || img.PlatformFrom != "config" || img.Layers != 2 {
		t.Errorf("%+v", img)
	}
}

func TestInspectMarksWhatIsNotThereOnlyWhenToldHow(t *testing.T) {
	m := newMemory()
	a, b := m.labelled("linux/amd64"), m.labelled("linux/arm64")
	root := m.index(a, b)
	delete(m.manifests, b.Digest)
	var e *audit.Error
	if _, err := audit.Inspect(t.Context(), m, root); !errors.As(err, &e) || e.Digest != b.Digest {
		t.Errorf("Inspect: %v", err)
	}
	got, err := audit.InspectPartial(t.Context(), m, root, absent)
	if err != nil {
		t.Fatal(err)
	}
	if img := got.Images[1]; !img.Missing || img.Platform != "linux/arm64" || img.Problem.Problem == "" {
		t.Errorf("missing image: %+v", img)
	}
	if got.Images[0].Missing {
		t.Errorf("image that is there: %+v", got.Images[0])
	}
}

// Sizes are foreign input.
func TestSizesDoNotOverflow(t *testing.T) {
	m := newMemory()
	huge := oci.Descriptor{MediaType: "l", Digest: digest.FromString("h"), Size: 1<<63 - 1}
	other := oci.Descriptor{MediaType: "l", Digest: digest.FromString("i"), Size: 1<<63 - 1}
	d := m.manifest(oci.MediaTypeManifest, object{
		"schemaVersion": 2, "config": m.blob(oci.MediaTypeConfig, []byte(`{"os":"linux","architecture":"amd64"}`)), "layers": []any{huge, other},
	})
	got, err := audit.Inspect(t.Context(), m, m.index(d))
	if err != nil {
		t.Fatal(err)
	}
	if got.ContentSize != 1<<63-1 || got.Images[0].ContentSize != 1<<63-1 {
		t.Errorf("%d, %d", got.ContentSize, got.Images[0].ContentSize)
	}
}
