package publish

import (
	"errors"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Expectation is what a tag must name before it may move.
type Expectation struct {
	// Tag is one of the targets.
	Tag ref.Reference
	// Digest is empty when the tag must not be there yet.
	Digest digest.Digest
}

// guard puts the preconditions of o on the tags and checks them against what
// was probed. A tag that names the root already meets every precondition: there
// is nothing left to do for it. All tags that fail are named; each error is a
// [*plan.PreconditionError].
func guard(targets []target, o Options) error {
	var errs []error
	for _, e := range o.Expect {
		g := find(targets, e.Tag)
		if g == nil {
			return &TargetError{Target: e.Tag, Reason: "a precondition on what is not a target"}
		}
		g.checked = true
		errs = append(errs, g.meets(e))
	}
	for i := range targets {
		for k := range targets[i].tags {
			g := &targets[i].tags[k]
			if !o.NoClobber || g.checked {
				continue
			}
			g.checked = true
			errs = append(errs, g.meets(Expectation{Tag: targets[i].repo.WithTag(g.name)}))
		}
	}
	return errors.Join(errs...)
}

func find(targets []target, name ref.Reference) *tag {
	for i := range targets {
		for k := range targets[i].tags {
			if targets[i].repo.WithTag(targets[i].tags[k].name) == name {
				return &targets[i].tags[k]
			}
		}
	}
	return nil
}

func (g *tag) meets(e Expectation) error {
	if now := g.previous.Digest; now != e.Digest && !g.right() {
		return &plan.PreconditionError{Tag: e.Tag, Expected: e.Digest, Found: now}
	}
	return nil
}

// ParseExpectation reads TAG=DIGEST, where TAG is a tag of one or more targets
// or the whole reference of one, and DIGEST may be "none" for a tag that must
// not be there. It returns one expectation per target that is meant.
func ParseExpectation(s string, targets []ref.Reference) ([]Expectation, error) {
	at := strings.LastIndexByte(s, '=')
	if at <= 0 || at == len(s)-1 {
		return nil, fmt.Errorf("%q: want TAG=DIGEST, or TAG=none", redact.Word(s))
	}
	name, d := s[:at], digest.Digest(s[at+1:])
	if d == "none" {
		d = ""
	} else if err := d.Validate(); err != nil {
		return nil, fmt.Errorf("%q: %w", redact.Word(s), err)
	}
	var out []Expectation
	for _, t := range targets {
		if t.Tag != "" && (t.Tag == name || t.String() == name || sameName(t, name)) {
			out = append(out, Expectation{Tag: t.WithTag(t.Tag), Digest: d})
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%q: no target has this tag", redact.Word(s))
	}
	return out, nil
}

// sameName compares a target with a reference in another spelling.
func sameName(t ref.Reference, name string) bool {
	r, err := ref.Parse(name)
	return err == nil && r.Tag == t.Tag && r.SameRepository(t)
}
