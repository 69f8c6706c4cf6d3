package apply

import (
	"context"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Difference is a tag that no longer names what it named when a plan was made.
type Difference struct {
	Tag ref.Reference
	// Planned and Found are empty for "there is no such tag".
	Planned, Found digest.Digest
}

// WorldError reports a saved plan that was made for another world.
type WorldError struct{ Differences []Difference }

func (e *WorldError) Error() string {
	parts := make([]string, len(e.Differences))
	for i, d := range e.Differences {
		parts[i] = (&plan.PreconditionError{Tag: d.Tag, Expected: d.Planned, Found: d.Found}).Error()
	}
	return "the plan was made for another state of its tags: " + strings.Join(parts, "; ")
}

// Compare reads every tag that a saved plan moves or has found right, by one GET
// each. A tag to be moved that names the plan's digest already is no difference;
// begun reports that there is one. The error is a [*WorldError], or what a
// registry answered.
func Compare(ctx context.Context, p plan.Plan, o Options) (begun bool, _ error) {
	var diff []Difference
	for _, s := range append(p.TagMoves(), p.Kept()...) {
		t := target(s.Target)
		now, err := o.Repository(t).Manifest(ctx, s.Tag)
		if err != nil && !o.Absent(err) {
			return false, fmt.Errorf("%s: %w", t.WithTag(s.Tag), err)
		}
		switch now.Digest {
		case s.Digest:
			begun = begun || s.Previous != s.Digest
		case s.Previous:
		default:
			diff = append(diff, Difference{Tag: t.WithTag(s.Tag), Planned: s.Previous, Found: now.Digest})
		}
	}
	if diff != nil {
		return begun, &WorldError{Differences: diff}
	}
	return begun, nil
}
