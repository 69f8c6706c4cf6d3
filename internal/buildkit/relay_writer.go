package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// relayed passes a blob on. It answers errdefs.ErrAlreadyExists when the registry
// has it, and then the node writes nothing: so it is, too, when the blob could be
// read from the node's own content store.
func (s *Store) relayed(ctx context.Context, o content.WriterOpts) (content.Writer, error) {
	send, err := s.relay.begin(ctx, o.Desc)
	if err == nil && send != nil {
		body, missing := s.openSource(ctx, o.Desc)
		if missing != nil {
			return s.passOn(ctx, o, send), nil
		}
		defer body.Close()
		err = send(ctx, body)
	}
	if err != nil {
		return nil, s.relayFailed(err)
	}
	s.nowPresent(o.Desc)
	return nil, alreadyExists(o.Desc.Digest)
}

// openSource opens a blob that the node need not write.
func (s *Store) openSource(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	if s.source == nil {
		return nil, errdefs.ErrNotImplemented
	}
	return s.source.open(ctx, d)
}

// passOn starts to send what the node is going to write.
func (s *Store) passOn(ctx context.Context, o content.WriterOpts, send registry.Send) content.Writer {
	r, pipe := newQueue()
	w := &relayWriter{writing: newWriting(s, o), pipe: pipe, ended: make(chan struct{})}
	s.mu.Lock()
	s.writers[o.Ref] = w
	s.mu.Unlock()
	go func() {
		defer close(w.ended)
		w.err = send(ctx, r)
		r.CloseWithError(w.err)
	}()
	return w
}

// nowPresent notes that a blob is in the registry.
func (s *Store) nowPresent(d oci.Descriptor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.present[d.Digest] = d.Size
}

// relayFailed remembers what the registry said, which reaches the node and
// comes back as text only. An upload that was cancelled is not what went wrong.
func (s *Store) relayFailed(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil && !errors.Is(err, context.Canceled) {
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
	writing
	pipe *queueWriter
	// ended is closed when the upload has ended, with err.
	ended chan struct{}
	err   error
}

// Write passes the next bytes on.
func (w *relayWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return 0, os.ErrClosed
	}
	if err := w.fits(len(p)); err != nil {
		return 0, err
	}
	n, err := w.pipe.Write(p)
	w.took(n)
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
	w.store.forget(w.ref, w)
	w.pipe.CloseWithError(nil)
	<-w.ended
	if w.err != nil {
		return w.store.relayFailed(w.err)
	}
	w.store.nowPresent(w.want)
	return nil
}

// Close gives up an upload that was not committed, and waits until the registry
// knows.
func (w *relayWriter) Close() error {
	w.store.forget(w.ref, w)
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
