package audit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// A layout that was saved for one platform lacks the others, and says
// which.
func TestALayoutOfOnePlatformLacksTheOthers(t *testing.T) {
	m := newMemory()
	amd, arm := m.labelled("linux/amd64"), m.labelled("linux/arm64")
	root := m.index(amd, arm)
	hole := m.manifestOf(amd).Layers[1].Digest
	delete(m.manifests, arm.Digest)
	delete(m.blobs, hole)

	l, err := layout.Open(m.dir(t, root))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Resolve(t.Context(), "1.0")
	if err != nil || b.Digest != root.Digest {
		t.Fatal(b.Descriptor, err)
	}
	r, err := audit.Verify(t.Context(), l, b, audit.Options{Absent: layout.Absent})
	if err != nil {
		t.Fatal(err)
	}
	want(t, r, names{arm.Digest: "arm", hole: "hole"}, "fault child-missing linux/arm64 arm", "fault blob-missing linux/amd64 hole")
}

// dir writes everything as an image layout in which root is tagged 1.0.
func (m *memory) dir(t *testing.T, root oci.Blob) string {
	t.Helper()
	dir := t.TempDir()
	put := func(name string, b []byte) {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	blob := func(d digest.Digest, b []byte) { put(filepath.Join("blobs", "sha256", d.Encoded()), b) }
	for d, b := range m.manifests {
		blob(d, b.Bytes)
	}
	for d, b := range m.blobs {
		blob(d, b)
	}
	put("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	d := root.Descriptor
	d.Annotations = map[string]string{"org.opencontainers.image.ref.name": "1.0"}
	put("index.json", newMemory().index(d).Bytes)
	return dir
}
