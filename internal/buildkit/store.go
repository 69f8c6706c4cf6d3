package buildkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Limits of what a node may make the client keep in memory, in bytes. Content
// over either of them goes to a file.
const (
	maxInMemory      = 1 << 20
	maxInMemoryTotal = 64 << 20
)

// Store receives what a node exports over the session: it is the content
// store behind BuildKit's OCI exporter with tar=false. Content that the
// registry already holds is answered with "already exists", so its bytes are
// never sent.
//
// Every blob is checked against the digest and size that the node announced;
// one without an announced digest is refused. Small blobs stay in memory, larger ones go to files that Close
// removes. A write that is closed before it was committed leaves nothing.
//
// With a relay, large blobs are sent on while they arrive and are not kept. With
// a source they are read from there, and are written by the node only if it does
// not have them.
//
// It is safe for concurrent use.
type Store struct {
	dir    string // of the spool files; empty for the system's
	relay  *relay // nil to keep everything
	source source // of what is relayed; nil to have all of it written

	mu       sync.Mutex
	present  map[digest.Digest]int64
	blobs    map[digest.Digest]storedBlob
	writers  map[string]content.Writer
	inMemory int64
	closed   bool
	failure  error // of the relay, the first
}

// storedBlob is content in memory, or in the file at path.
type storedBlob struct {
	size  int64
	bytes []byte
	path  string
	at    time.Time
}

var _ content.Store = (*Store)(nil)

// NewStore returns an empty store that spools to dir and says of present
// that it has them.
func NewStore(dir string, present ...oci.Descriptor) *Store {
	s := &Store{
		dir:     dir,
		present: map[digest.Digest]int64{},
		blobs:   map[digest.Digest]storedBlob{},
		writers: map[string]content.Writer{},
	}
	for _, d := range present {
		s.present[d.Digest] = d.Size
	}
	return s
}

// Close removes the spool files. Blobs do not open any more.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	writers := slices.Collect(maps.Values(s.writers))
	blobs := slices.Collect(maps.Values(s.blobs))
	clear(s.blobs)
	s.mu.Unlock()
	var errs []error
	for _, w := range writers {
		errs = append(errs, w.Close())
	}
	for _, b := range blobs {
		errs = append(errs, b.remove())
	}
	return errors.Join(errs...)
}

// OpenBlob opens a blob that was received. The error is fs.ErrNotExist for
// any other.
func (s *Store) OpenBlob(_ context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	b, err := s.blob(d.Digest)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: d.Digest.String(), Err: fs.ErrNotExist}
	}
	r, err := b.open()
	if err != nil {
		return nil, err
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(r, 0, b.size), r}, nil
}

// manifest returns the bytes of a received manifest or index.
func (s *Store) manifest(d oci.Descriptor) (oci.Blob, error) {
	if d.Size > oci.MaxManifestSize {
		return oci.Blob{}, fmt.Errorf("manifest %s: %d bytes, over the limit of %d", d.Digest, d.Size, oci.MaxManifestSize)
	}
	r, err := s.OpenBlob(context.Background(), d)
	if err != nil {
		return oci.Blob{}, err
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return oci.Blob{}, err
	}
	return oci.Blob{Descriptor: d, Bytes: b}, oci.Check(d, b)
}

func (s *Store) blob(d digest.Digest) (storedBlob, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.blobs[d]
	if !ok {
		return storedBlob{}, fmt.Errorf("content %s: %w", d, errdefs.ErrNotFound)
	}
	return b, nil
}

// isPresent reports whether the registry holds a digest.
func (s *Store) isPresent(d digest.Digest) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.present[d]
	return ok
}

// inRegistry lists what the relay has brought there for this store.
func (s *Store) inRegistry() []build.Relayed {
	s.mu.Lock()
	digests := slices.Collect(maps.Keys(s.present))
	s.mu.Unlock()
	return s.relay.of(digests)
}

// has reports whether a digest needs no bytes; the caller holds the lock.
func (s *Store) has(d digest.Digest) (int64, bool) {
	if size, ok := s.present[d]; ok {
		return size, true
	}
	b, ok := s.blobs[d]
	return b.size, ok
}

// Info describes content that is here, or that the registry holds.
func (s *Store) Info(_ context.Context, d digest.Digest) (content.Info, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, ok := s.has(d)
	if !ok {
		return content.Info{}, fmt.Errorf("content %s: %w", d, errdefs.ErrNotFound)
	}
	return content.Info{Digest: d, Size: size, CreatedAt: s.blobs[d].at, UpdatedAt: s.blobs[d].at}, nil
}

// Update is refused: labels are not kept.
func (s *Store) Update(context.Context, content.Info, ...string) (content.Info, error) {
	return content.Info{}, fmt.Errorf("labels of received content: %w", errdefs.ErrNotImplemented)
}

// Walk visits what was received. Filters are not read: nothing here has the
// labels that they select by.
func (s *Store) Walk(_ context.Context, fn content.WalkFunc, _ ...string) error {
	s.mu.Lock()
	var infos []content.Info
	for d, b := range s.blobs {
		infos = append(infos, content.Info{Digest: d, Size: b.size, CreatedAt: b.at, UpdatedAt: b.at})
	}
	s.mu.Unlock()
	slices.SortFunc(infos, func(a, b content.Info) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for _, info := range infos {
		if err := fn(info); err != nil {
			return err
		}
	}
	return nil
}

// Delete is refused: a node has no business deleting here.
func (s *Store) Delete(_ context.Context, d digest.Digest) error {
	return fmt.Errorf("delete %s: %w", d, errdefs.ErrPermissionDenied)
}

// ReaderAt opens a blob that was received.
func (s *Store) ReaderAt(_ context.Context, d oci.Descriptor) (content.ReaderAt, error) {
	b, err := s.blob(d.Digest)
	if err != nil {
		return nil, err
	}
	return b.open()
}

// Status describes a write that is under way.
func (s *Store) Status(_ context.Context, ref string) (content.Status, error) {
	s.mu.Lock()
	w, ok := s.writers[ref]
	s.mu.Unlock()
	if !ok {
		return content.Status{}, fmt.Errorf("write %s: %w", ref, errdefs.ErrNotFound)
	}
	return w.Status()
}

// ListStatuses describes all writes that are under way. Filters are not read.
func (s *Store) ListStatuses(context.Context, ...string) ([]content.Status, error) {
	s.mu.Lock()
	writers := slices.Collect(maps.Values(s.writers))
	s.mu.Unlock()
	var out []content.Status
	for _, w := range writers {
		st, err := w.Status()
		if err != nil {
			return nil, err
		}
		out = append(out, st)
	}
	slices.SortFunc(out, func(a, b content.Status) int { return a.StartedAt.Compare(b.StartedAt) })
	return out, nil
}

// Abort drops a write that is under way.
func (s *Store) Abort(_ context.Context, ref string) error {
	s.mu.Lock()
	w, ok := s.writers[ref]
	s.mu.Unlock()
	if !ok {
		return fmt.Errorf("write %s: %w", ref, errdefs.ErrNotFound)
	}
	return w.Close()
}

func (b storedBlob) remove() error {
	if b.path == "" {
		return nil
	}
	return os.Remove(b.path)
}

func (b storedBlob) open() (content.ReaderAt, error) {
	if b.path == "" {
		return memoryReader{bytes.NewReader(b.bytes)}, nil
	}
	f, err := os.Open(b.path)
	if err != nil {
		return nil, err
	}
	return fileReader{f, b.size}, nil
}

type memoryReader struct{ *bytes.Reader }

func (memoryReader) Close() error { return nil }

type fileReader struct {
	*os.File
	size int64
}

func (r fileReader) Size() int64 { return r.size }
