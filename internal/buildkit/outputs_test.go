package buildkit

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client"
)

func writeTar(t *testing.T, name string, members ...tar.Header) {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range members {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestArchivesAreJoinedWithoutLeavingTheirFolder(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	writeTar(t, a,
		tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755},
		tar.Header{Typeflag: tar.TypeReg, Name: "bin/sh", Mode: 0o4755, Size: 3},
		tar.Header{Typeflag: tar.TypeLink, Name: "bin/ash", Linkname: "bin/sh"},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "../../etc"},
		tar.Header{Typeflag: tar.TypeReg, Name: "../../out", Size: 1})
	writeTar(t, b, tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o700})

	var out bytes.Buffer
	w := tar.NewWriter(&out)
	seen := map[string]bool{}
	for _, part := range []struct{ file, prefix string }{{a, "linux_amd64/"}, {b, "linux_amd64/"}} {
		if err := appendTar(w, part.file, part.prefix, seen); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r := tar.NewReader(&out); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, h.Name+" "+h.Linkname)
		if h.Name == "linux_amd64/bin/sh" && (h.Mode != 0o4755 || h.Size != 3) {
			t.Errorf("%+v", h)
		}
	}
	want := []string{
		"linux_amd64/ ", "linux_amd64/bin/ ", "linux_amd64/bin/sh ", "linux_amd64/bin/ash linux_amd64/bin/sh",
		"linux_amd64/link ../../etc", "linux_amd64/out ",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestAnOutputIsNamedByTagsOrElseByItself(t *testing.T) {
	for _, c := range []struct {
		tags         []string
		name         string
		engine, tree []string
	}{
		{[]string{"r.io/a:1", "r.io/b:1", "c"}, "r.io/d:4", []string{"r.io/a:1", "r.io/b:1", "docker.io/library/c:latest"}, []string{"1", "latest"}},
		{nil, "r.io/d:4,e", []string{"r.io/d:4", "docker.io/library/e:latest"}, []string{"4", "latest"}},
		{nil, "", []string{""}, []string{"latest"}},
	} {
		names, err := layoutNames(&Spec{Tags: c.tags}, client.ExportEntry{Attrs: map[string]string{"name": c.name}})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.engine, engineNames(names)); d != "" {
			t.Errorf("%v, %q: engine: %s", c.tags, c.name, d)
		}
		if d := cmp.Diff(c.tree, layoutTags(names)); d != "" {
			t.Errorf("%v, %q: layout: %s", c.tags, c.name, d)
		}
	}
	var wrong *UsageError
	if _, err := layoutNames(&Spec{}, client.ExportEntry{Attrs: map[string]string{"name": "team/Upper"}}); !errors.As(err, &wrong) {
		t.Errorf("a name that is none: %v", err)
	}
}
