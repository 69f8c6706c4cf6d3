package publish

import (
	"fmt"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// order sorts the manifests of items, roots among them, so that each comes after
// all that it refers to and after its subject, if that is among them; otherwise
// as listed from the roots. Each digest is there once.
func order(items ...Item) ([]Manifest, error) {
	s := sorter{known: map[digest.Digest]Manifest{}, done: map[digest.Digest]bool{}, held: map[digest.Digest]bool{}}
	for _, item := range items {
		for _, m := range item.Manifests {
			s.add(m)
		}
		if _, ok := s.known[item.Root.Digest]; !ok {
			s.known[item.Root.Digest] = Manifest{Blob: item.Root}
		}
		s.held[item.Root.Digest] = s.held[item.Root.Digest] || item.Held
	}
	for _, item := range items {
		if err := s.visit(item.Root.Digest, 0); err != nil {
			return nil, err
		}
	}
	return s.out, nil
}

type sorter struct {
	known map[digest.Digest]Manifest
	// held are roots of which nothing below is looked at.
	held map[digest.Digest]bool
	done map[digest.Digest]bool
	out  []Manifest
}

// add notes a manifest; one that comes twice is kept with its places.
func (s *sorter) add(m Manifest) {
	if known, ok := s.known[m.Digest]; ok && len(known.Places()) > 0 {
		return
	}
	s.known[m.Digest] = m
}

func (s *sorter) visit(d digest.Digest, depth int) error {
	if s.done[d] {
		return nil
	}
	s.done[d] = true
	m := s.known[d]
	if depth > oci.MaxDepth {
		return &oci.DepthError{Digest: d}
	}
	if s.held[d] {
		s.out = append(s.out, m)
		return nil
	}
	needs, err := dependencies(m.Blob)
	if err != nil {
		return fmt.Errorf("%s: %w", d, err)
	}
	for _, c := range needs.required {
		if _, ok := s.known[c]; !ok {
			return &HoleError{Parent: d, Missing: c}
		}
	}
	for _, c := range append(needs.optional, needs.required...) {
		if _, ok := s.known[c]; !ok {
			continue
		}
		if err := s.visit(c, depth+1); err != nil {
			return err
		}
	}
	s.out = append(s.out, m)
	return nil
}

// deps are the manifests that must be at a registry before another one:
// children (required) and the subject (optional, it may be elsewhere).
type deps struct{ required, optional []digest.Digest }

func dependencies(b oci.Blob) (deps, error) {
	if oci.IsIndex(b.MediaType) {
		idx, err := oci.ParseIndex(b)
		if err != nil {
			return deps{}, err
		}
		return indexDependencies(idx), nil
	}
	m, err := oci.ParseManifest(b)
	if err != nil {
		return deps{}, err
	}
	if m.Subject != nil {
		return deps{optional: []digest.Digest{m.Subject.Digest}}, nil
	}
	return deps{}, nil
}

// indexDependencies lists images before attestations, whatever order the index
// has, so that an attestation is never sent before what it speaks of.
func indexDependencies(idx oci.Index) deps {
	var images, attestations []digest.Digest
	for _, e := range idx.Manifests {
		switch _, attests := oci.IsAttestation(e.Descriptor); {
		case !oci.IsManifest(e.MediaType):
		case attests:
			attestations = append(attestations, e.Digest)
		default:
			images = append(images, e.Digest)
		}
	}
	d := deps{required: append(images, attestations...)}
	if idx.Subject != nil {
		d.optional = []digest.Digest{idx.Subject.Digest}
	}
	return d
}
