package layout

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"

	"github.com/manifold-oci/manifold/oci"
)

// Links and devices are not content; long names take more than one header.
func TestOnlyRegularFilesAreMembers(t *testing.T) {
	long := string(bytes.Repeat([]byte("x"), 300))
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{
		{Name: "dir/", Typeflag: tar.TypeDir},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "hard", Typeflag: tar.TypeLink, Linkname: "a"},
		{Name: "null", Typeflag: tar.TypeChar},
		{Name: "./a", Typeflag: tar.TypeReg, Size: 3},
		{Name: long, Typeflag: tar.TypeReg, Size: 3},
		{Name: "../../up", Typeflag: tar.TypeReg, Size: 3},
	} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			_, _ = io.WriteString(w, "abc")
		}
	}
	_ = w.Close()
	got, err := scan(bytes.NewReader(buf.Bytes()))
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v", got, err)
	}
	for _, name := range []string{"a", long} {
		s := got[name]
		if text := string(buf.Bytes()[s.offset : s.offset+s.size]); text != "abc" {
			t.Errorf("%.9s: %q", name, text)
		}
	}
}

func TestSparseFilesAreRefused(t *testing.T) {
	h := &tar.Header{Name: "a", Typeflag: tar.TypeReg, PAXRecords: map[string]string{"GNU.sparse.major": "1"}}
	if err := addMember(map[string]span{}, h, 0); err == nil {
		t.Error("a sparse file is taken for its bytes")
	}
}

// An archive that is cut anywhere is never read as a whole one.
func TestEveryPrefixOfAnArchiveIsRefused(t *testing.T) {
	f := newFiles()
	whole := f.index(entry(f.image("a"), "")).tarBytes("")
	// One zero block of the two that end it is enough to know the end.
	for n := 0; n < len(whole)-2*block; n += 64 {
		if m, err := scan(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("%d of %d bytes are read as %v", n, len(whole), m)
		}
	}
	if _, err := scan(bytes.NewReader(whole)); err != nil {
		t.Error(err)
	}
}

// FuzzScan: members lie inside the file, whatever the headers say.
func FuzzScan(f *testing.F) {
	l := newFiles()
	f.Add(l.index(entry(l.image("a"), "")).tarBytes("./"))
	f.Add(oci.NewBlob("", make([]byte, 2*block)).Bytes)
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, b []byte) {
		members, err := scan(bytes.NewReader(b))
		if err != nil {
			return
		}
		for name, s := range members {
			if s.offset < 0 || s.size < 0 || s.offset+s.size > int64(len(b)) {
				t.Fatalf("%q is at %+v of %d bytes", name, s, len(b))
			}
		}
	})
}
