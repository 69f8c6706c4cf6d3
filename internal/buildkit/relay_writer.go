package buildkit

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// relayed starts to pass a blob on. It answers errdefs.ErrAlreadyExists when
// the registry has it.
func (s *Store) relayed(ctx context.Context, o content.WriterOpts) (content.Writer, error) {
	send, err := s.relay.begin(ctx, o.Desc)
	if err != nil {
		return nil, s.relayFailed(err)
	}
	if send == nil {
		s.nowPresent(o.Desc)
		return nil, fmt.Errorf("content %s: %w", o.Desc.Digest, errdefs.ErrAlreadyExists)
	}
	r, pipe := newQueue()
	w := &relayWriter{
		store: s, ref: o.Ref, want: o.Desc, started: time.Now(), updated: time.Now(),
		pipe: pipe, ended: make(chan struct{}),
	}
	s.mu.Lock()
	s.writers[o.Ref] = w
	s.mu.Unlock()
	go func() {
		defer close(w.ended)
		w.err = send(ctx, r)
		r.CloseWithError(w.err)
	}()
	return w, nil
}

// nowPresent notes that a blob is in the registry.
func (s *Store) nowPresent(d oci.Descriptor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present[d.Digest] = d.Size
}

// relayFailed remembers what the registry said, which reaches the node and
// comes back as text only.
func (s *Store) relayFailed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = err
	}
	return err
}

// takeFailure returns what the registry said, once.
func (s *Store) takeFailure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.failure
	s.failure = nil
	return err
}

// relayWriter is a blob on its way through. Its bytes are not hashed here: the
// registry does that before it takes them under the digest that was announced.
type relayWriter struct {
	store   *Store
	ref     string
	want    oci.Descriptor
	started time.Time
	pipe    *queueWriter
	// ended is closed when the upload has ended, with err.
	ended chan struct{}
	err   error

	mu      sync.Mutex
	size    int64
	updated time.Time
	done    bool
}

// Write passes the next bytes on.
func (w *relayWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return 0, os.ErrClosed
	}
	if w.size+int64(len(p)) > w.want.Size {
		return 0, fmt.Errorf("content %s: longer than the %d bytes announced: %w", w.want.Digest, w.want.Size, errdefs.ErrFailedPrecondition)
	}
	n, err := w.pipe.Write(p)
	w.size += int64(n)
	w.updated = time.Now()
	if err != nil {
		<-w.ended
		return n, w.store.relayFailed(w.reason(err))
	}
	return n, nil
}

// reason is what the upload ended with, rather than that it has ended.
func (w *relayWriter) reason(err error) error {
	if w.err != nil {
		return w.err
	}
	return err
}

// Digest is the one announced.
func (w *relayWriter) Digest() digest.Digest { return w.want.Digest }

// Status says how much was received.
func (w *relayWriter) Status() (content.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return content.Status{
		Ref: w.ref, Offset: w.size, Total: w.want.Size, Expected: w.want.Digest,
		StartedAt: w.started, UpdatedAt: w.updated,
	}, nil
}

// Truncate is refused: what was passed on cannot be taken back.
func (w *relayWriter) Truncate(size int64) error {
	return fmt.Errorf("truncate to %d: %w", size, errdefs.ErrNotImplemented)
}

// Commit waits until the registry has the blob.
func (w *relayWriter) Commit(_ context.Context, size int64, expected digest.Digest, _ ...content.Opt) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.done:
		return fmt.Errorf("write %s: closed: %w", w.ref, errdefs.ErrFailedPrecondition)
	case expected != "" && expected != w.want.Digest:
		return fmt.Errorf("content %s: %s was announced: %w", expected, w.want.Digest, errdefs.ErrFailedPrecondition)
	case w.size != w.want.Size || size > 0 && size != w.size:
		return fmt.Errorf("content %s: %d bytes, %d announced: %w", w.want.Digest, w.size, w.want.Size, errdefs.ErrFailedPrecondition)
	}
	w.done = true
	w.forget()
	w.pipe.CloseWithError(nil)
	<-w.ended
	if w.err != nil {
		return w.store.relayFailed(w.err)
	}
	w.store.nowPresent(w.want)
	return nil
}

func (w *relayWriter) forget() {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	if w.store.writers[w.ref] == w {
		delete(w.store.writers, w.ref)
	}
}

// Close gives up an upload that was not committed, and waits until the registry
// knows.
func (w *relayWriter) Close() error {
	w.forget()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	w.pipe.CloseWithError(errAbandoned)
	<-w.ended
	return nil
}
