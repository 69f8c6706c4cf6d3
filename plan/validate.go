package plan

import (
	"fmt"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Validate checks that the plan can be run, as [Plan.Runnable] does, and that it
// publishes what it says: every target is one that a step, or what is held,
// brings to the content that it shall have; every step belongs to a target, and
// to the content of that; nothing is tagged before all content is everywhere and
// read back, and every tag that moves is confirmed. The error is an [*Error].
func (p Plan) Validate() error {
	if err := p.Runnable(); err != nil {
		return err
	}
	return p.relate()
}

// Runnable checks the steps by themselves, as those of a part that [Plan.Split]
// has made: a version this package knows, unique IDs, steps that wait only for
// earlier ones, bytes present and of the digest, size and media type they claim
// for every manifest that a step sends. The error is an [*Error].
func (p Plan) Runnable() error {
	if p.Version != Version {
		return &Error{Reason: fmt.Sprintf("version %d, want %d", p.Version, Version)}
	}
	have := map[digest.Digest]oci.Blob{}
	for _, m := range p.Manifests {
		if err := m.check(); err != nil {
			return &Error{Reason: fmt.Sprintf("manifest %s: %v", m.Digest, err)}
		}
		have[m.Digest] = m.Blob()
	}
	earlier := map[string]bool{}
	for _, s := range p.Steps {
		if err := s.validate(earlier, have); err != nil {
			return err
		}
		earlier[s.ID] = true
	}
	return nil
}

func (m Manifest) check() error {
	if err := m.Digest.Validate(); err != nil {
		return err
	}
	return oci.Check(oci.Descriptor{Digest: m.Digest}, m.Bytes)
}

func (s Step) fail(format string, args ...any) error {
	return &Error{Step: s.ID, Reason: fmt.Sprintf(format, args...)}
}

func (s Step) validate(earlier map[string]bool, have map[digest.Digest]oci.Blob) error {
	if s.ID == "" || earlier[s.ID] {
		return s.fail("id is empty or not unique")
	}
	for _, a := range s.After {
		if !earlier[a] {
			return s.fail("waits for %q, which does not come before it", a)
		}
	}
	switch s.Op {
	case CopyBlob:
		return s.validateBlob()
	case PutManifest, ReadBack, MoveTag, ConfirmTag, Confirm:
		return s.validateManifest(have)
	}
	return s.fail("unknown operation %q", s.Op)
}

func (s Step) validateBlob() error {
	switch err := s.Digest.Validate(); {
	case err != nil:
		return s.fail("digest %q: %v", s.Digest, err)
	case s.Size < 0:
		return s.fail("size %d", s.Size)
	case len(s.From) == 0:
		return s.fail("blob %s has no source", s.Digest)
	case s.Tag != "" || s.Previous != "":
		return s.fail("%s with tag %q", s.Op, s.Tag)
	}
	return nil
}

func (s Step) validateManifest(have map[digest.Digest]oci.Blob) error {
	b, ok := have[s.Digest]
	switch {
	case !ok:
		return s.fail("manifest %s is not in the plan", s.Digest)
	case s.Size != b.Size:
		return s.fail("size %d, the manifest has %d bytes", s.Size, b.Size)
	case s.MediaType != b.MediaType:
		return s.fail("media type %q, the manifest has %q", s.MediaType, b.MediaType)
	}
	return s.validateTag()
}

func (s Step) validateTag() error {
	tags := s.Op == MoveTag || s.Op == ConfirmTag
	switch {
	case tags != (s.Tag != ""), !tags && s.Previous != "":
		return s.fail("%s with tag %q", s.Op, s.Tag)
	case s.Previous != "" && s.Previous.Validate() != nil:
		return s.fail("previous %q is no digest", s.Previous)
	}
	return nil
}
