package layout

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
)

// eachWriter runs a test over both kinds. again closes what was written and
// opens it for reading.
func eachWriter(t *testing.T, test func(t *testing.T, w *Writer, again func() *Layout)) {
	t.Helper()
	for name, create := range map[string]func(string) (*Writer, error){"directory": Create, "archive": CreateArchive} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "image")
			w, err := create(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			test(t, w, func() *Layout {
				if err := errors.Join(w.Commit(), w.Close()); err != nil {
					t.Fatal(err)
				}
				return open(t, path)
			})
		})
	}
}

func opener(b []byte) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// put writes an image with its config and returns it.
func put(t *testing.T, w *Writer, name string) oci.Blob {
	t.Helper()
	f := newFiles()
	d := f.image(name)
	for path, b := range f {
		if hex, ok := strings.CutPrefix(path, "blobs/sha256/"); ok && hex != d.Digest.Encoded() {
			if _, err := w.WriteBlob(t.Context(), oci.NewBlob("", b).Descriptor, opener(b)); err != nil {
				t.Fatal(err)
			}
		}
	}
	b := oci.Blob{Descriptor: d, Bytes: f["blobs/sha256/"+d.Digest.Encoded()]}
	if err := w.PutManifest(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return b
}

func tag(t *testing.T, w *Writer, name string, b oci.Blob) {
	t.Helper()
	if err := w.PutTag(t.Context(), name, b); err != nil {
		t.Fatal(err)
	}
}

func TestWhatWasWrittenIsReadBackByTagAndDigest(t *testing.T) {
	eachWriter(t, func(t *testing.T, w *Writer, again func() *Layout) {
		a, b := put(t, w, "a"), put(t, w, "b")
		if _, err := w.Manifest(t.Context(), "1"); !Absent(err) {
			t.Errorf("a tag before it was written: %v", err)
		}
		tag(t, w, "1", a)
		tag(t, w, "2", a)
		tag(t, w, "1", b) // moves it, in its place
		for _, open := range []func() *Layout{func() *Layout { return w.Layout }, again} {
			l := open()
			for name, want := range map[string]oci.Blob{"1": b, "2": a, a.Digest.String(): a} {
				if got, err := l.Resolve(t.Context(), name); err != nil || got.Digest != want.Digest || !bytes.Equal(got.Bytes, want.Bytes) {
					t.Errorf("%s: %v, %v; want %s", name, got.Digest, err, want.Digest)
				}
			}
			entries, err := l.Images(t.Context())
			var got []string
			for _, e := range entries {
				got = append(got, Tags(e)...)
			}
			if diff := cmp.Diff([]string{"1", "2"}, got); diff != "" || err != nil {
				t.Errorf("tags: %v\n%s", err, diff)
			}
		}
	})
}

func TestAnEmptyTagListsWithoutAName(t *testing.T) {
	eachWriter(t, func(t *testing.T, w *Writer, again func() *Layout) {
		a, b := put(t, w, "a"), put(t, w, "b")
		for _, p := range []struct {
			tag string
			b   oci.Blob
		}{{"", a}, {"", a}, {"1", b}, {"", b}} {
			tag(t, w, p.tag, p.b)
		}
		entries, err := again().Images(t.Context())
		var got []string
		for _, e := range entries {
			_, named := e.Annotations["org.opencontainers.image.ref.name"]
			got = append(got, fmt.Sprintf("%s %v %t", e.Digest, Tags(e), named))
		}
		want := []string{a.Digest.String() + " [] false", b.Digest.String() + " [1] true"}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestBlobWithOtherBytesIsNotKept(t *testing.T) {
	eachWriter(t, func(t *testing.T, w *Writer, again func() *Layout) {
		good := []byte("good bytes")
		d := oci.NewBlob("", good).Descriptor
		for name, b := range map[string][]byte{"other": []byte("evil bytes"), "short": good[:4], "long": append(good[:10:10], '!')} {
			_, err := w.WriteBlob(t.Context(), d, opener(b))
			var wrong *oci.MismatchError
			if !errors.As(err, &wrong) {
				t.Errorf("%s: %v", name, err)
			}
			if there, err := w.StatBlob(t.Context(), d); there || err != nil {
				t.Errorf("%s: kept: %v, %v", name, there, err)
			}
		}
		if written, err := w.WriteBlob(t.Context(), d, opener(good)); !written || err != nil {
			t.Fatalf("after that: %v, %v", written, err)
		}
		if written, err := w.WriteBlob(t.Context(), d, nil); written || err != nil {
			t.Fatalf("what is there is written again: %v, %v", written, err)
		}
		tag(t, w, "1", put(t, w, "a"))
		l := again()
		rc, err := l.OpenBlob(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(rc); string(got) != string(good) || err != nil {
			t.Errorf("read back %q, %v", got, err)
		}
	})
}

func TestSideBySideWritersLoseNoTag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "image")
	names := strings.Split("abcdefgh", "")
	var wg sync.WaitGroup
	for _, name := range names {
		wg.Go(func() {
			w, err := Create(path)
			if err != nil {
				t.Error(err)
				return
			}
			defer w.Close()
			tag(t, w, name, put(t, w, name))
		})
	}
	wg.Wait()
	l := open(t, path)
	for _, name := range names {
		if _, err := l.Resolve(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(path, ".part-*"))
	if len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestIndexKeepsWhatItDoesNotKnow(t *testing.T) {
	f := newFiles()
	a := f.image("a")
	f["index.json"] = []byte(`{"manifests":[` + entry(a, `,"annotations":{"org.opencontainers.image.ref.name":"old"},"x-entry":{"n":1}`) +
		`],"schemaVersion":2,"x-top":[1, 2],"annotations":{"k":"v"}}`)
	path := f.dir(t)
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	tag(t, w, "new", put(t, w, "b"))
	raw, err := os.ReadFile(filepath.Join(path, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Manifests []map[string]any  `json:"manifests"`
		Top       []int             `json:"x-top"`
		Other     map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Manifests) != 2 || got.Manifests[0]["x-entry"] == nil || len(got.Top) != 2 || got.Other["k"] != "v" {
		t.Errorf("index.json is %s", raw)
	}
}

func TestDeletedTagLeavesContent(t *testing.T) {
	eachWriter(t, func(t *testing.T, w *Writer, _ func() *Layout) {
		a := put(t, w, "a")
		tag(t, w, "1", a)
		tag(t, w, "2", a)
		if err := w.DeleteTag(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
		if err := w.DeleteTag(t.Context(), "1"); !Absent(err) {
			t.Errorf("deleted twice: %v", err)
		}
		for _, name := range []string{"2", a.Digest.String()} {
			if _, err := w.Manifest(t.Context(), name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestArchiveIsThereWhenItIsWhole(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "image.tar")
	if err := os.WriteFile(path, []byte("as before"), 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := CreateArchive(path)
	if err != nil {
		t.Fatal(err)
	}
	tag(t, w, "1", put(t, w, "a"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if string(got) != "as before" || err != nil {
		t.Errorf("without commit: %q, %v", got, err)
	}
	names, err := os.ReadDir(dir)
	if len(names) != 1 || err != nil {
		t.Errorf("left behind: %v, %v", names, err)
	}
}

func TestNothingIsMadeBeforeTheFirstWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "below", "image")
	w, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Manifest(t.Context(), "1"); !Absent(err) {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("made: %v", err)
	}
}

func TestPlacesThatAreNoLayoutAreRefused(t *testing.T) {
	dir := t.TempDir()
	full := filepath.Join(dir, "full")
	if err := errors.Join(os.Mkdir(full, 0o755), os.WriteFile(filepath.Join(full, "thesis.doc"), []byte("x"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := Create(full); err == nil {
		t.Error("a directory with other files became a layout")
	}
	if _, err := Create(filepath.Join(full, "thesis.doc")); err == nil {
		t.Error("a file became a layout")
	}
	if _, err := CreateArchive(full); err == nil {
		t.Error("a directory was replaced by an archive")
	}
	if _, err := CreateArchive(filepath.Join(full, "thesis.doc", "below", "image.tar")); err == nil {
		t.Error("an archive below a file")
	}
}

// As an output of a build, and as a layout in a directory.
func TestFoldersOfAnArchiveAreMade(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a", "b", "image.tar")
	for _, whole := range []bool{false, true} {
		w, err := CreateArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
			t.Errorf("made before the first write: %v, %v", left, err)
		}
		b := put(t, w, "a")
		tag(t, w, "1", b)
		if whole {
			err = w.Commit()
		}
		if err := errors.Join(err, w.Close()); err != nil {
			t.Fatal(err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || whole != (len(left) == 1) {
			t.Errorf("committed %t: %v, %v", whole, left, err)
		}
	}
	if _, err := open(t, path).Resolve(t.Context(), "1"); err != nil {
		t.Error(err)
	}
}

func TestReferrersAreFoundByTagAndInTheIndex(t *testing.T) {
	f := newFiles()
	image := f.image("a")
	signature := func(data string) oci.Descriptor {
		c := f.blob("application/vnd.oci.empty.v1+json", []byte(`{}`))
		return f.blob(oci.MediaTypeManifest, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeManifest+`","artifactType":"`+data+`","config":`+entry(c, "")+`,"layers":[],"subject":`+entry(image, "")+`}`))
	}
	tagged1, listed := signature("example/one"), signature("example/two")
	list := f.blob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+entry(tagged1, "")+`]}`))
	f.index(tagged(image, "1"), tagged(list, "sha256-"+image.Digest.Encoded()), entry(listed, ""))
	eachKind(t, f, func(t *testing.T, l *Layout) {
		got, err := l.Referrers(t.Context(), image.Digest)
		if err != nil || len(got) != 2 || got[0].Digest != tagged1.Digest || got[1].Digest != listed.Digest {
			t.Errorf("referrers: %v, %v", got, err)
		}
		if got, err := l.Referrers(t.Context(), tagged1.Digest); len(got) != 0 || err != nil {
			t.Errorf("of what has none: %v, %v", got, err)
		}
	})
}
