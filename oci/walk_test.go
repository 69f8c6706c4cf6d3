package oci_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// store is content in memory that knows what was asked of it.
type store struct {
	blobs map[digest.Digest]oci.Blob
	asked []digest.Digest
}

var errAbsent = errors.New("absent")

func (s *store) add(mediaType string, b []byte) oci.Blob {
	if s.blobs == nil {
		s.blobs = map[digest.Digest]oci.Blob{}
	}
	blob := oci.NewBlob(mediaType, b)
	s.blobs[blob.Digest] = blob
	return blob
}

func (s *store) FetchManifest(_ context.Context, d oci.Descriptor) (oci.Blob, error) {
	s.asked = append(s.asked, d.Digest)
	b, ok := s.blobs[d.Digest]
	if !ok {
		return oci.Blob{}, errAbsent
	}
	return b, nil
}

func of(b oci.Blob) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, b.MediaType, b.Digest, b.Size)
}

func TestWalkVisitsParentsFirstAndEachDigestOnce(t *testing.T) {
	var s store
	a := s.add(oci.MediaTypeManifest, manifest())
	b := s.add(oci.MediaTypeManifest, append(manifest(), '\n'))
	inner := s.add(oci.MediaTypeIndex, index(of(b), of(a)))
	cache := `{"mediaType":"application/vnd.buildkit.cacheconfig.v0","digest":"` + digestB + `","size":1}`
	root := oci.NewBlob(oci.MediaTypeIndex, index(of(a), cache, of(inner), of(a)))

	var got []digest.Digest
	depth := map[digest.Digest]int{}
	err := oci.Walk(t.Context(), &s, root, func(blob oci.Blob, path []oci.Descriptor) error {
		got = append(got, blob.Digest)
		depth[blob.Digest] = len(path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]digest.Digest{root.Digest, a.Digest, inner.Digest, b.Digest}, got); diff != "" {
		t.Errorf("visits (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]digest.Digest{a.Digest, inner.Digest, b.Digest}, s.asked); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if depth[b.Digest] != 2 || depth[a.Digest] != 1 || depth[root.Digest] != 0 {
		t.Errorf("paths: %v", depth)
	}
}

func TestWalkEndsOnAChainOfIndexes(t *testing.T) {
	var s store
	top := s.add(oci.MediaTypeManifest, manifest())
	for range 50 {
		top = s.add(oci.MediaTypeIndex, index(of(top)))
	}
	err := oci.Walk(t.Context(), &s, top, func(oci.Blob, []oci.Descriptor) error { return nil })
	var deep *oci.DepthError
	if !errors.As(err, &deep) {
		t.Fatalf("got %v, want a *DepthError", err)
	}
	if len(s.asked) > oci.MaxDepth+1 {
		t.Errorf("fetched %d manifests before stopping", len(s.asked))
	}
}

func TestWalkStopsAtErrorsAndSkipsWhereToldTo(t *testing.T) {
	var s store
	a := oci.NewBlob(oci.MediaTypeManifest, manifest())
	root := oci.NewBlob(oci.MediaTypeIndex, index(of(a)))
	visit := func(err error) oci.Visit { return func(oci.Blob, []oci.Descriptor) error { return err } }
	if err := oci.Walk(t.Context(), &s, root, visit(nil)); !errors.Is(err, errAbsent) {
		t.Errorf("fetch: %v", err)
	}
	if err := oci.Walk(t.Context(), &s, root, visit(oci.ErrSkip)); err != nil || len(s.asked) != 1 {
		t.Errorf("skip: %v, asked %v", err, s.asked)
	}
	stop := errors.New("stop")
	if err := oci.Walk(t.Context(), &s, root, visit(stop)); !errors.Is(err, stop) {
		t.Errorf("visit: %v", err)
	}
	var syntax *oci.SyntaxError
	if err := oci.Walk(t.Context(), &s, oci.NewBlob(oci.MediaTypeIndex, []byte(`{}`)), visit(nil)); !errors.As(err, &syntax) {
		t.Errorf("syntax: %v", err)
	}
}
