package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// site is what a plan says about one repository: what it shall hold, what it
// has, and the steps that it gets.
type site struct {
	name string
	// roots are the contents that it shall hold, tags what shall name them.
	roots []digest.Digest
	tags  map[string]digest.Digest
	// right are tags that do not move, held are manifests that are there, whole
	// are roots of which nothing below is a part of the plan.
	right       map[string]bool
	held, whole map[digest.Digest]bool
	// belongs are all manifests of the contents, and what they are about; blobs
	// are theirs.
	belongs map[digest.Digest]bool
	blobs   map[blob]bool
	// puts, reads and again are its steps by manifest, moves and confirms those
	// by tag.
	puts, reads, again map[digest.Digest]Step
	moves, confirms    map[string]Step
	copies             map[digest.Digest]Step
}

// blob is what a descriptor says of one.
type blob struct {
	digest    digest.Digest
	mediaType string
	size      int64
}

func newSite(name string) *site {
	return &site{
		name: name, tags: map[string]digest.Digest{}, right: map[string]bool{},
		held: map[digest.Digest]bool{}, whole: map[digest.Digest]bool{},
		belongs: map[digest.Digest]bool{}, blobs: map[blob]bool{},
		puts: map[digest.Digest]Step{}, reads: map[digest.Digest]Step{}, again: map[digest.Digest]Step{},
		moves: map[string]Step{}, confirms: map[string]Step{}, copies: map[digest.Digest]Step{},
	}
}

// want notes a target of the repository.
func (s *site) want(r ref.Reference, d digest.Digest) error {
	if !slices.Contains(s.roots, d) {
		s.roots = append(s.roots, d)
	}
	if r.Digest != "" && r.Digest != d {
		return &Error{Reason: fmt.Sprintf("target %s shall be %s", r, d)}
	}
	if r.Tag == "" {
		return nil
	}
	if other, ok := s.tags[r.Tag]; ok && other != d {
		return &Error{Reason: fmt.Sprintf("target %s is to name %s and %s", r, other, d)}
	}
	s.tags[r.Tag] = d
	return nil
}

// hold notes what the repository had.
func (s *site) hold(h Held) error {
	fail := func(what string) error {
		return &Error{Reason: fmt.Sprintf("what %s holds: %s is no part of the plan", s.name, what)}
	}
	for _, tag := range h.Tags {
		if _, ok := s.tags[tag]; !ok {
			return fail("tag " + tag)
		}
		s.right[tag] = true
	}
	for _, d := range h.Whole {
		if !slices.Contains(s.roots, d) {
			return fail(d.String())
		}
		s.whole[d] = true
	}
	for _, d := range h.Manifests {
		s.held[d] = true
	}
	return nil
}

// add notes a step.
func (s *site) add(step Step) error {
	switch step.Op {
	case CopyBlob:
		if !s.blobs[blob{step.Digest, step.MediaType, step.Size}] {
			return step.fail("blob %s of %d bytes belongs to nothing that %s shall hold", step.Digest, step.Size, s.name)
		}
		return note(s.copies, step.Digest, step)
	case MoveTag:
		return s.addTag(s.moves, step)
	case ConfirmTag:
		return s.addTag(s.confirms, step)
	}
	if !s.belongs[step.Digest] {
		return step.fail("manifest %s belongs to nothing that %s shall hold", step.Digest, s.name)
	}
	return note(map[Op]map[digest.Digest]Step{PutManifest: s.puts, ReadBack: s.reads, Confirm: s.again}[step.Op], step.Digest, step)
}

func (s *site) addTag(set map[string]Step, step Step) error {
	want, ok := s.tags[step.Tag]
	switch {
	case !ok:
		return step.fail("%s:%s is no target", s.name, step.Tag)
	case want != step.Digest:
		return step.fail("%s:%s shall name %s, not %s", s.name, step.Tag, want, step.Digest)
	case step.Op == MoveTag && s.right[step.Tag]:
		return step.fail("%s:%s names that already", s.name, step.Tag)
	case step.Op == MoveTag && step.Previous == step.Digest:
		return step.fail("%s:%s names that already", s.name, step.Tag)
	}
	return note(set, step.Tag, step)
}

func note[K comparable](set map[K]Step, key K, step Step) error {
	if other, ok := set[key]; ok {
		return step.fail("does what step %s does", other.ID)
	}
	set[key] = step
	return nil
}

// gather finds what belongs to the contents, and returns what each root brings
// with it, itself included.
func (s *site) gather(g graph) (map[digest.Digest][]digest.Digest, error) {
	out := map[digest.Digest][]digest.Digest{}
	for _, root := range s.roots {
		if s.whole[root] {
			out[root] = []digest.Digest{root}
		} else {
			below := map[digest.Digest]bool{}
			if err := g.walk(root, 0, below); err != nil {
				return nil, err
			}
			out[root] = slices.Sorted(maps.Keys(below))
		}
		g.about(root, s.belongs)
	}
	for d := range s.belongs {
		for _, b := range g[d].blobs {
			s.blobs[blob{b.Digest, b.MediaType, b.Size}] = true
		}
	}
	return out, nil
}

// graph is what the manifests of a plan point at.
type graph map[digest.Digest]node

type node struct {
	err             error
	children, blobs []oci.Descriptor
	subject         *oci.Descriptor
}

func newGraph(all []Manifest) graph {
	g := graph{}
	for _, m := range all {
		g[m.Digest] = parse(m.Blob())
	}
	return g
}

func parse(b oci.Blob) node {
	var n node
	var refs []oci.Descriptor
	if refs, n.err = oci.References(b); n.err != nil {
		return n
	}
	isIndex := oci.IsIndex(b.MediaType)
	for _, d := range refs {
		if isIndex && oci.IsManifest(d.MediaType) {
			n.children = append(n.children, d)
		} else {
			n.blobs = append(n.blobs, d)
		}
	}
	n.subject = subject(b)
	return n
}

func subject(b oci.Blob) *oci.Descriptor {
	if idx, err := oci.ParseIndex(b); err == nil {
		return idx.Subject
	}
	m, _ := oci.ParseManifest(b) // has been read before
	return m.Subject
}

// walk collects a manifest and all that it brings with it; all of that has to be
// there.
func (g graph) walk(d digest.Digest, depth int, seen map[digest.Digest]bool) error {
	if seen[d] {
		return nil
	}
	seen[d] = true
	n, ok := g[d]
	switch {
	case depth > oci.MaxDepth:
		return &Error{Reason: (&oci.DepthError{Digest: d}).Error()}
	case !ok:
		return &Error{Reason: fmt.Sprintf("manifest %s is not in the plan", d)}
	case n.err != nil:
		return &Error{Reason: fmt.Sprintf("manifest %s: %v", d, n.err)}
	}
	for _, c := range n.children {
		if err := g.walk(c.Digest, depth+1, seen); err != nil {
			return err
		}
	}
	return nil
}

// about collects, of what is in the plan, a manifest, all below it and all that
// these are about.
func (g graph) about(d digest.Digest, seen map[digest.Digest]bool) {
	n, ok := g[d]
	if seen[d] || !ok {
		return
	}
	seen[d] = true
	for _, c := range n.children {
		g.about(c.Digest, seen)
	}
	if n.subject != nil {
		g.about(n.subject.Digest, seen)
	}
}
