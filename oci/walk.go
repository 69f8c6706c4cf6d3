package oci

import (
	"context"
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// MaxDepth bounds how deep indexes may nest. Published images nest one deep at
// most; a chain of fifty is an attack or a mistake.
const MaxDepth = 8

// Fetcher reads manifests and indexes by descriptor, the bytes checked against
// digest and size.
type Fetcher interface {
	FetchManifest(ctx context.Context, d Descriptor) (Blob, error)
}

// FetcherFunc is a function that is a [Fetcher].
type FetcherFunc func(ctx context.Context, d Descriptor) (Blob, error)

// FetchManifest calls f.
func (f FetcherFunc) FetchManifest(ctx context.Context, d Descriptor) (Blob, error) { return f(ctx, d) }

// DepthError reports indexes nested deeper than [MaxDepth].
type DepthError struct{ Digest digest.Digest }

func (e *DepthError) Error() string {
	return fmt.Sprintf("%s: indexes nest deeper than %d", e.Digest, MaxDepth)
}

// ErrSkip returned by a [Visit] keeps the walk from descending into a node.
var ErrSkip = errors.New("skip")

// Visit is called for every manifest and index on a walk, parents before their
// children, each digest once. path holds the indexes above it, outermost first.
type Visit func(b Blob, path []Descriptor) error

// Walk visits root and every manifest below it, depth first, in the order in
// which indexes list them. Entries of an index that are not manifests (cache
// layers of BuildKit) are not fetched. It stops at the first error of fetch or
// visit.
func Walk(ctx context.Context, f Fetcher, root Blob, visit Visit) error {
	return walk(ctx, f, root, nil, map[digest.Digest]bool{}, visit)
}

func walk(ctx context.Context, f Fetcher, b Blob, path []Descriptor, seen map[digest.Digest]bool, visit Visit) error {
	if seen[b.Digest] {
		return nil
	}
	seen[b.Digest] = true
	if len(path) > MaxDepth {
		return &DepthError{Digest: b.Digest}
	}
	switch err := visit(b, path); {
	case errors.Is(err, ErrSkip):
		return nil
	case err != nil:
		return err
	}
	if !IsIndex(b.MediaType) {
		return nil
	}
	idx, err := ParseIndex(b)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Digest, err)
	}
	path = append(path[:len(path):len(path)], b.Descriptor)
	for _, e := range idx.Manifests {
		if !IsManifest(e.MediaType) || seen[e.Digest] {
			continue
		}
		child, err := f.FetchManifest(ctx, e.Descriptor)
		if err != nil {
			return err
		}
		if err := walk(ctx, f, child, path, seen, visit); err != nil {
			return err
		}
	}
	return nil
}
