package registry

import (
	"context"
	"io"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
)

// Source reads one repository from its mirrors, where it has any, and else from
// its own host. Content is checked by digest wherever it comes from; what a tag
// names is believed of the first that answers. It never writes, and what has to
// be read back is not read through it.
type Source struct {
	*Repository
	mirrors []*Repository
}

// Source returns the repository of a reference, with the mirrors of its host in
// Options.Mirrors. A mirror that fails for whatever reason is passed over.
func (c *Client) Source(r ref.Reference) *Source {
	s := &Source{Repository: c.Repository(r)}
	for _, m := range c.o.Mirrors[r.Host] {
		host, prefix, _ := strings.Cut(strings.TrimSuffix(m, "/"), "/")
		at := r.Repo()
		at.Host = host
		if prefix != "" {
			at.Repository = prefix + "/" + at.Repository
		}
		s.mirrors = append(s.mirrors, c.Repository(at))
	}
	return s
}

// Mirrored reports that there are mirrors: what is read may be a mirror's.
func (s *Source) Mirrored() bool { return len(s.mirrors) > 0 }

// first asks one place after the other until one answers. The error is that of
// the repository's own host.
func first[T any](ctx context.Context, s *Source, ask func(*Repository) (T, error)) (T, error) {
	for _, m := range s.mirrors {
		if v, err := ask(m); err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return ask(s.Repository)
}

// Manifest is [Repository.Manifest].
func (s *Source) Manifest(ctx context.Context, identifier string) (oci.Blob, error) {
	return first(ctx, s, func(r *Repository) (oci.Blob, error) { return r.Manifest(ctx, identifier) })
}

// Resolve is [Repository.Resolve].
func (s *Source) Resolve(ctx context.Context, identifier string) (oci.Descriptor, error) {
	return first(ctx, s, func(r *Repository) (oci.Descriptor, error) { return r.Resolve(ctx, identifier) })
}

// FetchManifest is [Repository.FetchManifest].
func (s *Source) FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error) {
	return first(ctx, s, func(r *Repository) (oci.Blob, error) { return r.FetchManifest(ctx, d) })
}

// OpenBlob is [Repository.OpenBlob]. A mirror that breaks off later is not left
// for another place; it is asked again for the rest.
func (s *Source) OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	return first(ctx, s, func(r *Repository) (io.ReadCloser, error) { return r.OpenBlob(ctx, d) })
}
