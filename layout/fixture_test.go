package layout

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
)

// files of a layout by name.
type files map[string][]byte

func newFiles() files { return files{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`)} }

func (f files) blob(mediaType string, b []byte) oci.Descriptor {
	d := oci.NewBlob(mediaType, b).Descriptor
	f["blobs/sha256/"+d.Digest.Encoded()] = b
	return d
}

// image adds an image manifest whose bytes depend on name, and its config.
func (f files) image(name string) oci.Descriptor {
	c := f.blob(oci.MediaTypeConfig, []byte(`{"architecture":"amd64","os":"linux","author":"`+name+`"}`))
	return f.blob(oci.MediaTypeManifest, []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		oci.MediaTypeManifest, c.MediaType, c.Digest, c.Size)))
}

func (f files) index(entries ...string) files {
	f["index.json"] = []byte(`{"schemaVersion":2,"manifests":[` + strings.Join(entries, ",") + `]}`)
	return f
}

func entry(d oci.Descriptor, more string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d%s}`, d.MediaType, d.Digest, d.Size, more)
}

func tagged(d oci.Descriptor, refName string) string {
	return entry(d, fmt.Sprintf(`,"annotations":{"org.opencontainers.image.ref.name":%q}`, refName))
}

func (f files) names() []string { return slices.Sorted(maps.Keys(f)) }

func (f files) dir(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	for name, b := range f {
		p := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// tarBytes writes an archive; prefix stands before each name.
func (f files) tarBytes(prefix string) []byte {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range f.names() {
		_ = w.WriteHeader(&tar.Header{Name: prefix + name, Mode: 0o644, Size: int64(len(f[name])), Typeflag: tar.TypeReg})
		_, _ = w.Write(f[name])
	}
	_ = w.Close()
	return buf.Bytes()
}

func write(t *testing.T, b []byte) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

func open(t *testing.T, path string) *Layout {
	t.Helper()
	l, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// eachKind runs a test over the same layout as a directory and as archives.
func eachKind(t *testing.T, f files, test func(t *testing.T, l *Layout)) {
	t.Helper()
	t.Run("directory", func(t *testing.T) { test(t, open(t, f.dir(t))) })
	t.Run("archive", func(t *testing.T) { test(t, open(t, write(t, f.tarBytes("")))) })
	t.Run("archive of .", func(t *testing.T) { test(t, open(t, write(t, f.tarBytes("./")))) })
}

func readAll(r io.ReadCloser) ([]byte, error) {
	defer r.Close()
	return io.ReadAll(r)
}
