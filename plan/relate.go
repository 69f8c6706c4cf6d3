package plan

import (
	"fmt"
	"maps"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// relate checks that the steps, and what is held, bring every target to what it
// shall be.
func (p Plan) relate() error {
	if err := p.checkRoot(); err != nil {
		return err
	}
	sites, err := p.sites()
	if err != nil {
		return err
	}
	g := newGraph(p.Manifests)
	contents := map[*site]map[digest.Digest][]digest.Digest{}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		if contents[sites[name]], err = sites[name].gather(g); err != nil {
			return err
		}
	}
	for _, step := range p.Steps {
		s, ok := sites[step.Target]
		if !ok {
			return step.fail("%q is no target", step.Target)
		}
		if err := s.add(step); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sites)) {
		s := sites[name]
		if err := s.complete(contents[s], len(p.TagMoves()) > 0); err != nil {
			return err
		}
		if err := s.ordered(g); err != nil {
			return err
		}
	}
	return p.tagsLast()
}

func (p Plan) checkRoot() error {
	b, ok := p.Manifest(p.Root.Digest)
	switch {
	case !ok:
		return &Error{Reason: fmt.Sprintf("root %q is not in the plan", p.Root.Digest)}
	case p.Root.Size != b.Size:
		return &Error{Reason: fmt.Sprintf("root: size %d, the manifest has %d bytes", p.Root.Size, b.Size)}
	case p.Root.MediaType != b.MediaType:
		return &Error{Reason: fmt.Sprintf("root: media type %q, the manifest has %q", p.Root.MediaType, b.MediaType)}
	case !slices.ContainsFunc(p.Targets, func(t Target) bool { return t.Digest == p.Root.Digest }):
		return &Error{Reason: fmt.Sprintf("no target shall be the root %s", p.Root.Digest)}
	}
	return nil
}

// sites are the repositories of the targets, by name.
func (p Plan) sites() (map[string]*site, error) {
	sites := map[string]*site{}
	for _, t := range p.Targets {
		r, err := ref.ParseTarget(t.Reference)
		if err != nil {
			return nil, &Error{Reason: fmt.Sprintf("target %v", err)}
		}
		if _, ok := p.Manifest(t.Digest); !ok {
			return nil, &Error{Reason: fmt.Sprintf("target %s: manifest %q is not in the plan", t.Reference, t.Digest)}
		}
		if sites[r.Name()] == nil {
			sites[r.Name()] = newSite(r.Name())
		}
		if err := sites[r.Name()].want(r, t.Digest); err != nil {
			return nil, err
		}
	}
	for _, h := range p.Held {
		s, ok := sites[h.Target]
		if !ok {
			return nil, &Error{Reason: fmt.Sprintf("holds %q, which is no target", h.Target)}
		}
		if err := s.hold(h); err != nil {
			return nil, err
		}
	}
	return sites, nil
}

// complete checks that nothing is missing: a look at every manifest that this
// run has not seen there, a move of every tag that is not right, and after
// that a look at every tag and at all that is below those that move. moves tells
// whether any tag of the plan does.
func (s *site) complete(contents map[digest.Digest][]digest.Digest, moves bool) error {
	for _, root := range s.roots {
		for _, d := range contents[root] {
			if _, ok := s.reads[d]; !ok && !s.held[d] {
				return &Error{Reason: fmt.Sprintf("%s: manifest %s is neither there nor read back", s.name, d)}
			}
		}
	}
	for d, put := range s.puts {
		if _, ok := s.reads[d]; !ok {
			return put.fail("manifest %s is not read back", d)
		}
	}
	for _, tag := range slices.Sorted(maps.Keys(s.tags)) {
		if err := s.completeTag(tag, moves); err != nil {
			return err
		}
	}
	return s.completeAgain(contents)
}

func (s *site) completeTag(tag string, moves bool) error {
	move, ok := s.moves[tag]
	confirm, confirmed := s.confirms[tag]
	previous := move.Previous
	if s.right[tag] {
		previous = s.tags[tag]
	}
	switch {
	case !ok && !s.right[tag]:
		return &Error{Reason: fmt.Sprintf("%s:%s is not moved", s.name, tag)}
	case moves && !confirmed:
		return &Error{Reason: fmt.Sprintf("%s:%s is not confirmed", s.name, tag)}
	case confirmed && confirm.Previous != previous:
		return confirm.fail("previous %q, want %q", confirm.Previous, previous)
	}
	return nil
}

// completeAgain checks the looks at manifests after the tags have moved. A root
// that a tag moves to is looked at with the tag, and one that no tag had to move
// to is as it was.
func (s *site) completeAgain(contents map[digest.Digest][]digest.Digest) error {
	if len(s.moves) == 0 {
		return nil
	}
	moved, tagged := map[digest.Digest]bool{}, map[digest.Digest]bool{}
	for tag, d := range s.tags {
		tagged[d] = true
		moved[d] = moved[d] || !s.right[tag]
	}
	for _, root := range s.roots {
		if tagged[root] && !moved[root] {
			continue
		}
		for _, d := range contents[root] {
			if _, ok := s.again[d]; !ok && !moved[d] {
				return &Error{Reason: fmt.Sprintf("%s: manifest %s is not looked at after the tags have moved", s.name, d)}
			}
		}
	}
	return nil
}

// ordered checks that a manifest is written after what it points at, and read
// back after it was written.
func (s *site) ordered(g graph) error {
	for d, put := range s.puts {
		if read := s.reads[d]; !slices.Contains(read.After, put.ID) {
			return read.fail("does not wait for step %s", put.ID)
		}
		if err := waits(put, g[d].children, s.puts); err != nil {
			return err
		}
		if err := waits(put, g[d].blobs, s.copies); err != nil {
			return err
		}
	}
	return nil
}

func waits(step Step, of []oci.Descriptor, steps map[digest.Digest]Step) error {
	for _, d := range of {
		if first, ok := steps[d.Digest]; ok && !slices.Contains(step.After, first.ID) {
			return step.fail("does not wait for step %s", first.ID)
		}
	}
	return nil
}
