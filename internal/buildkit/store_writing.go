package buildkit

import (
	"fmt"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// writing is what a store knows of one blob that is being written to it.
type writing struct {
	store   *Store
	ref     string
	want    oci.Descriptor // digest and size are empty when not announced
	started time.Time

	mu      sync.Mutex
	size    int64
	updated time.Time
	done    bool
}

func newWriting(s *Store, o content.WriterOpts) writing {
	now := time.Now()
	return writing{store: s, ref: o.Ref, want: o.Desc, started: now, updated: now}
}

// fits refuses more bytes than were announced; the caller holds the lock.
func (w *writing) fits(more int) error {
	if w.want.Size > 0 && w.size+int64(more) > w.want.Size {
		return fmt.Errorf("content %s: longer than the %d bytes announced: %w", w.want.Digest, w.want.Size, errdefs.ErrFailedPrecondition)
	}
	return nil
}

// took counts bytes that were taken; the caller holds the lock.
func (w *writing) took(n int) {
	w.size += int64(n)
	w.updated = time.Now()
}

// Status says how much was received.
func (w *writing) Status() (content.Status, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return content.Status{
		Ref: w.ref, Offset: w.size, Total: w.want.Size, Expected: w.want.Digest,
		StartedAt: w.started, UpdatedAt: w.updated,
	}, nil
}

// alreadyExists tells a node that there is nothing to write.
func alreadyExists(d digest.Digest) error {
	return fmt.Errorf("content %s: %w", d, errdefs.ErrAlreadyExists)
}

// forget takes a writer off the list of those under way. A later one of the
// same ref stays.
func (s *Store) forget(ref string, w content.Writer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.writers[ref] == w {
		delete(s.writers, ref)
	}
}
