package buildkit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
)

// Writer starts to receive a blob. It answers errdefs.ErrAlreadyExists for
// content that needs no bytes and errdefs.ErrUnavailable while the same ref
// is being written.
func (s *Store) Writer(ctx context.Context, opts ...content.WriterOpt) (content.Writer, error) {
	var o content.WriterOpts
	for _, opt := range opts {
		if err := opt(&o); err != nil {
			return nil, err
		}
	}
	if s.relay.takes(o) {
		if err := s.admitted(o); err != nil {
			return nil, err
		}
		return s.relayed(ctx, o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.admit(o); err != nil {
		return nil, err
	}
	w := &storeWriter{writing: newWriting(s, o)}
	w.reset()
	s.writers[o.Ref] = w
	return w, nil
}

func (s *Store) admitted(o content.WriterOpts) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admit(o)
}

// admit decides whether a write may begin; the caller holds the lock.
func (s *Store) admit(o content.WriterOpts) error {
	switch {
	case s.closed:
		return fmt.Errorf("content store: %w", os.ErrClosed)
	case o.Ref == "":
		return fmt.Errorf("write without a ref: %w", errdefs.ErrInvalidArgument)
	case s.writers[o.Ref] != nil:
		return fmt.Errorf("write %s: under way: %w", o.Ref, errdefs.ErrUnavailable)
	case o.Desc.Digest == "":
		return nil
	}
	if err := o.Desc.Digest.Validate(); err != nil {
		return fmt.Errorf("write %s: %w: %w", o.Ref, err, errdefs.ErrInvalidArgument)
	}
	if _, ok := s.has(o.Desc.Digest); ok {
		return alreadyExists(o.Desc.Digest)
	}
	return nil
}

// storeWriter receives one blob, in memory until it is too large for that.
type storeWriter struct {
	writing
	memory bytes.Buffer
	file   *os.File
	hash   digest.Digester
}

func (w *storeWriter) reset() {
	algorithm := digest.Canonical
	if w.want.Digest != "" {
		algorithm = w.want.Digest.Algorithm()
	}
	w.hash, w.size, w.updated = algorithm.Digester(), 0, time.Now()
	w.memory.Reset()
}

// Write receives the next bytes.
func (w *storeWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return 0, os.ErrClosed
	}
	if err := w.fits(len(p)); err != nil {
		return 0, err
	}
	out, err := w.sink(int64(len(p)))
	if err != nil {
		return 0, err
	}
	n, err := out.Write(p)
	w.hash.Hash().Write(p[:n])
	w.took(n)
	return n, err
}

// sink is where the next more bytes go. It moves to a file once, when memory
// is not the place for them.
func (w *storeWriter) sink(more int64) (io.Writer, error) {
	if w.file != nil {
		return w.file, nil
	}
	if max(w.size+more, w.want.Size) <= maxInMemory && w.store.reserve(more) {
		return &w.memory, nil
	}
	f, err := os.CreateTemp(w.store.dir, "manifold-blob-*")
	if err != nil {
		return nil, err
	}
	w.file = f
	n, err := f.Write(w.memory.Bytes())
	w.store.reserve(-int64(w.memory.Len()))
	w.memory = bytes.Buffer{}
	if err != nil {
		return nil, fmt.Errorf("%s: %d bytes written: %w", f.Name(), n, err)
	}
	return f, nil
}

// reserve takes bytes of memory, or gives them back.
func (s *Store) reserve(n int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.inMemory+n > maxInMemoryTotal {
		return false
	}
	s.inMemory += n
	return true
}

// Digest is that of the bytes so far.
func (w *storeWriter) Digest() digest.Digest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hash.Digest()
}

// Truncate starts over; no other size than 0 is supported.
func (w *storeWriter) Truncate(size int64) error {
	if size != 0 {
		return fmt.Errorf("truncate to %d: %w", size, errdefs.ErrNotImplemented)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.store.reserve(-int64(w.memory.Len()))
	w.reset()
	if w.file == nil {
		return nil
	}
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return w.file.Truncate(0)
}

// Commit checks what was received and keeps it.
func (w *storeWriter) Commit(_ context.Context, size int64, expected digest.Digest, _ ...content.Opt) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return fmt.Errorf("write %s: closed: %w", w.ref, errdefs.ErrFailedPrecondition)
	}
	if err := w.check(size, expected); err != nil {
		return err
	}
	b := storedBlob{size: w.size, at: time.Now()}
	if w.file != nil {
		b.path = w.file.Name()
		if err := w.file.Close(); err != nil {
			return err
		}
	} else {
		b.bytes = w.memory.Bytes()
	}
	w.done = true
	return w.store.keep(w.ref, w.hash.Digest(), b)
}

func (w *storeWriter) check(size int64, expected digest.Digest) error {
	if expected == "" {
		expected = w.want.Digest
	}
	if expected == "" {
		return fmt.Errorf("write %s: no digest announced: %w", w.ref, errdefs.ErrInvalidArgument)
	}
	if size > 0 && size != w.size {
		return fmt.Errorf("content %s: %d bytes, %d announced: %w", expected, w.size, size, errdefs.ErrFailedPrecondition)
	}
	if got := w.hash.Digest(); got != expected {
		return fmt.Errorf("content %s: bytes are %s: %w", expected, got, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// keep takes a checked blob over. Of two writers of one digest the first wins.
func (s *Store) keep(ref string, d digest.Digest, b storedBlob) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.writers, ref)
	_, exists := s.has(d)
	switch {
	case s.closed:
		return errors.Join(b.remove(), os.ErrClosed)
	case exists:
		s.inMemory -= int64(len(b.bytes))
		return errors.Join(b.remove(), alreadyExists(d))
	}
	s.blobs[d] = b
	return nil
}

// Close drops a write that was not committed.
func (w *storeWriter) Close() error {
	w.store.forget(w.ref, w)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.store.reserve(-int64(w.memory.Len()))
	return w.drop()
}

// drop removes the file of a write that is given up.
func (w *storeWriter) drop() error {
	w.done = true
	w.memory = bytes.Buffer{}
	if w.file == nil {
		return nil
	}
	return errors.Join(w.file.Close(), os.Remove(w.file.Name()))
}
