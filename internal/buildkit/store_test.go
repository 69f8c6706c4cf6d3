package buildkit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func describe(b []byte) oci.Descriptor {
	return oci.NewBlob("application/octet-stream", b).Descriptor
}

// send writes b the way BuildKit's session does.
func send(t *testing.T, s *Store, ref string, d oci.Descriptor, b []byte) error {
	t.Helper()
	w, err := s.Writer(t.Context(), content.WithRef(ref), content.WithDescriptor(d))
	if err != nil {
		return err
	}
	defer w.Close()
	if _, err := w.Write(b); err != nil {
		return err
	}
	return w.Commit(t.Context(), d.Size, d.Digest)
}

func read(t *testing.T, s *Store, d oci.Descriptor) []byte {
	t.Helper()
	r, err := s.OpenBlob(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func files(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestStoreKeepsSmallBlobsInMemoryAndLargeOnesInFiles(t *testing.T) {
	for size, wantFiles := range map[int]int{0: 0, 1: 0, maxInMemory: 0, maxInMemory + 1: 1, 5 << 20: 1} {
		dir := t.TempDir()
		s := NewStore(dir)
		b := noise(size)
		d := describe(b)
		if err := send(t, s, "layer-x", d, b); err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		if got := files(t, dir); got != wantFiles {
			t.Errorf("%d bytes: %d files", size, got)
		}
		if !bytes.Equal(read(t, s, d), b) {
			t.Errorf("%d bytes: read back differs", size)
		}
		ra, err := s.ReaderAt(t.Context(), d)
		if err != nil || ra.Size() != int64(size) || ra.Close() != nil {
			t.Errorf("%d bytes: reader %v, %v", size, ra, err)
		}
		info, err := s.Info(t.Context(), d.Digest)
		if err != nil || info.Size != int64(size) {
			t.Errorf("%d bytes: info %+v, %v", size, info, err)
		}
		if err := s.Close(); err != nil || files(t, dir) != 0 {
			t.Errorf("%d bytes: close %v, %d files left", size, err, files(t, dir))
		}
		if _, err := s.OpenBlob(t.Context(), d); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%d bytes: opens after close: %v", size, err)
		}
	}
}

func TestStoreMovesAGrowingBlobOfUnknownSizeToAFile(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	b := noise(maxInMemory + 10)
	d := describe(b)
	w, err := s.Writer(t.Context(), content.WithRef("layer-x"))
	if err != nil {
		t.Fatal(err)
	}
	for chunk := range chunks(b, 300_000) {
		if _, err := w.Write(chunk); err != nil {
			t.Fatal(err)
		}
	}
	if st, err := s.Status(t.Context(), "layer-x"); err != nil || st.Offset != d.Size {
		t.Errorf("status %+v, %v", st, err)
	}
	if err := w.Commit(t.Context(), 0, d.Digest); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(read(t, s, d), b) || s.inMemory != 0 {
		t.Errorf("read back differs, or %d bytes are held in memory", s.inMemory)
	}
	if err := s.Close(); err != nil || files(t, dir) != 0 {
		t.Errorf("close: %v", err)
	}
}

func chunks(b []byte, n int) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(b) > 0 {
			k := min(n, len(b))
			if !yield(b[:k]) {
				return
			}
			b = b[k:]
		}
	}
}

func TestStoreBoundsWhatItHoldsInMemory(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	s.inMemory = maxInMemoryTotal
	b := noise(100)
	if err := send(t, s, "x", describe(b), b); err != nil {
		t.Fatal(err)
	}
	if files(t, dir) != 1 || s.inMemory != maxInMemoryTotal {
		t.Errorf("%d files, %d bytes", files(t, dir), s.inMemory)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreAsksForNothingThatTheRegistryHolds(t *testing.T) {
	b := noise(10)
	d := describe(b)
	s := NewStore(t.TempDir(), d)
	if err := send(t, s, "layer-x", d, b); !errdefs.IsAlreadyExists(err) {
		t.Errorf("error %v", err)
	}
	if info, err := s.Info(t.Context(), d.Digest); err != nil || info.Size != d.Size {
		t.Errorf("info %+v, %v", info, err)
	}
	if _, err := s.OpenBlob(t.Context(), d); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opens what was not sent: %v", err)
	}
}

func TestStoreRefusesContentThatIsNotWhatWasAnnounced(t *testing.T) {
	b := noise(10)
	other := describe(noise(11))
	short := describe(b)
	short.Size = 9
	long := describe(b)
	long.Size = 11
	nameless := describe(b)
	nameless.Digest = ""
	wrong := describe(b)
	wrong.Digest = "sha256:nonsense"
	for name, d := range map[string]oci.Descriptor{"digest": other, "size under": short, "size over": long, "no digest": nameless, "syntax": wrong} {
		dir := t.TempDir()
		s := NewStore(dir)
		if err := send(t, s, "layer-x", d, b); err == nil {
			t.Errorf("%s: accepted", name)
		}
		if len(s.blobs) != 0 || len(s.writers) != 0 || s.inMemory != 0 || files(t, dir) != 0 {
			t.Errorf("%s: something is left: %+v", name, s)
		}
	}
}

func TestStoreWriterLocksItsRefUntilItIsClosed(t *testing.T) {
	b := noise(maxInMemory + 1)
	d := describe(b)
	dir := t.TempDir()
	s := NewStore(dir)
	open := func() (content.Writer, error) {
		return s.Writer(t.Context(), content.WithRef("layer-x"), content.WithDescriptor(d))
	}
	w, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open(); !errdefs.IsUnavailable(err) {
		t.Errorf("second writer: %v", err)
	}
	if _, err := w.Write(b[:100]); err != nil {
		t.Fatal(err)
	}
	if list, err := s.ListStatuses(t.Context()); err != nil || len(list) != 1 || list[0].Offset != 100 || list[0].Expected != d.Digest {
		t.Errorf("statuses %+v, %v", list, err)
	}
	if err := s.Abort(t.Context(), "layer-x"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Status(t.Context(), "layer-x"); !errdefs.IsNotFound(err) {
		t.Errorf("status after abort: %v", err)
	}
	if err := s.Abort(t.Context(), "layer-x"); !errdefs.IsNotFound(err) {
		t.Errorf("second abort: %v", err)
	}
	if files(t, dir) != 0 {
		t.Error("abort leaves a file")
	}
	if err := send(t, s, "layer-x", d, b); err != nil {
		t.Errorf("after abort: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreTruncateStartsOver(t *testing.T) {
	for _, size := range []int{10, maxInMemory + 1} {
		s := NewStore(t.TempDir())
		b := noise(size)
		d := describe(b)
		w, err := s.Writer(t.Context(), content.WithRef("x"), content.WithDescriptor(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b[size/2:]); err != nil {
			t.Fatal(err)
		}
		if err := w.Truncate(1); err == nil {
			t.Error("truncated to 1")
		}
		if err := w.Truncate(0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		if err := w.Commit(t.Context(), d.Size, d.Digest); err != nil || w.Digest() != d.Digest {
			t.Errorf("commit: %v", err)
		}
		if !bytes.Equal(read(t, s, d), b) {
			t.Error("read back differs")
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStoreKeepsTheFirstOfTwoWritersOfOneDigest(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	b := noise(maxInMemory + 1)
	d := describe(b)
	var writers []content.Writer
	for _, ref := range []string{"a", "b"} {
		w, err := s.Writer(t.Context(), content.WithRef(ref), content.WithDescriptor(d))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(b); err != nil {
			t.Fatal(err)
		}
		writers = append(writers, w)
	}
	if err := writers[0].Commit(t.Context(), d.Size, d.Digest); err != nil {
		t.Error(err)
	}
	if err := writers[1].Commit(t.Context(), d.Size, d.Digest); !errdefs.IsAlreadyExists(err) {
		t.Errorf("second commit: %v", err)
	}
	if files(t, dir) != 1 {
		t.Errorf("%d files", files(t, dir))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestStoreCloseDropsWritesUnderWay(t *testing.T) {
	dir := t.TempDir()
	s := NewStore(dir)
	b := noise(maxInMemory + 1)
	w, err := s.Writer(t.Context(), content.WithRef("x"), content.WithDescriptor(describe(b)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil || files(t, dir) != 0 {
		t.Errorf("close: %v, %d files left", err, files(t, dir))
	}
	if err := w.Commit(t.Context(), 0, digest.FromBytes(b)); err == nil {
		t.Error("commit after close")
	}
	if _, err := s.Writer(t.Context(), content.WithRef("y")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("writer after close: %v", err)
	}
}

func TestStoreRefusesToDeleteAndUpdate(t *testing.T) {
	s := NewStore(t.TempDir())
	b := noise(3)
	d := describe(b)
	if err := send(t, s, "x", d, b); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(t.Context(), d.Digest); err == nil {
		t.Error("deleted")
	}
	if _, err := s.Update(t.Context(), content.Info{Digest: d.Digest}); err == nil {
		t.Error("updated")
	}
	n := 0
	err := s.Walk(context.Background(), func(i content.Info) error {
		n++
		if i.Digest != d.Digest {
			t.Errorf("walked to %s", i.Digest)
		}
		return nil
	})
	if err != nil || n != 1 {
		t.Errorf("walk: %v, %d blobs", err, n)
	}
}
