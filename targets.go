package manifold

import (
	"context"
	"errors"
	"io"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// store is somewhere that content is published: a repository or a layout.
type store interface {
	publish.Prober
	apply.Repository
	StatBlob(ctx context.Context, d oci.Descriptor) (bool, error)
}

// target returns the store that a reference of a plan names. One that cannot be
// opened answers every question with the reason.
func (m *Manifold) target(r ref.Reference) store {
	l := r.AsLocation()
	if l.Transport == ref.Registry {
		return m.reg.Repository(r)
	}
	w, err := m.writer(l)
	if err != nil {
		return closed{err}
	}
	return layoutStore{w}
}

// writer opens a layout for writing, once.
func (m *Manifold) writer(l ref.Location) (*layout.Writer, error) {
	name := placeName(l)
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok := m.writers[name]; ok {
		return w, nil
	}
	var w *layout.Writer
	var err error
	switch l.Transport {
	case ref.OCILayout:
		w, err = layout.Create(l.Path)
	case ref.OCIArchive:
		w, err = layout.CreateArchive(l.Path)
	default:
		err = errors.New(string(l.Transport) + ": cannot be written, only read")
	}
	if err != nil {
		return nil, err
	}
	m.writers[name] = w
	return w, nil
}

// commit ends what was written to layouts: archives appear.
func (m *Manifold) commit() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range m.writers {
		if err := w.Commit(); err != nil {
			return err
		}
	}
	return nil
}

// layoutStore makes a layout speak like a repository.
type layoutStore struct{ *layout.Writer }

// Resolve returns what a tag or digest names.
func (s layoutStore) Resolve(ctx context.Context, identifier string) (oci.Descriptor, error) {
	b, err := s.Manifest(ctx, identifier)
	return b.Descriptor, err
}

// CopyBlob writes a blob. There is nothing to mount from.
func (s layoutStore) CopyBlob(ctx context.Context, d oci.Descriptor, _ []string, open func(context.Context) (io.ReadCloser, error)) (registry.Outcome, error) {
	written, err := s.WriteBlob(ctx, d, open)
	switch {
	case err != nil:
		return "", err
	case written:
		return registry.Uploaded, nil
	}
	return registry.Present, nil
}

// closed is a store that could not be opened.
type closed struct{ err error }

func (c closed) Resolve(context.Context, string) (oci.Descriptor, error) {
	return oci.Descriptor{}, c.err
}

func (c closed) FetchManifest(context.Context, oci.Descriptor) (oci.Blob, error) {
	return oci.Blob{}, c.err
}

func (c closed) Manifest(context.Context, string) (oci.Blob, error)     { return oci.Blob{}, c.err }
func (c closed) StatBlob(context.Context, oci.Descriptor) (bool, error) { return false, c.err }
func (c closed) PutManifest(context.Context, oci.Blob) error            { return c.err }
func (c closed) PutTag(context.Context, string, oci.Blob) error         { return c.err }
func (c closed) DeleteTag(context.Context, string) error                { return c.err }

func (c closed) CopyBlob(context.Context, oci.Descriptor, []string, func(context.Context) (io.ReadCloser, error)) (registry.Outcome, error) {
	return "", c.err
}

// cleanerOf returns what removes the leftovers of a failed run. Those of a
// layout stay: they are files that nobody else sees, and the next run uses them.
func (m *Manifold) cleanerOf(r ref.Reference) apply.Cleaner {
	if r.AsLocation().Transport != ref.Registry {
		return keeper{}
	}
	return cleaner{m.reg.Repository(r)}
}

type keeper struct{}

func (keeper) Tagged(context.Context, func(oci.Blob) error) error { return nil }

func (keeper) DeleteManifest(context.Context, digest.Digest) error {
	return errors.New("content stays in a layout, for the next run")
}
