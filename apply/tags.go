package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// moveTag writes the tag, by the one PUT that names it, if it may.
func (r *run) moveTag(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.Tag, report.Started)
	e.Previous = s.Previous
	r.o.Report.Send(e)
	right, err := r.mayMove(ctx, s)
	if err != nil {
		return r.failed(e, err)
	}
	if err := context.Cause(ctx); err != nil {
		return r.failed(e, err)
	}
	if right {
		r.setFate(s, Unchanged, "")
		e.State = report.Present
		r.o.Report.Send(e)
		return nil
	}
	r.o.Journal.Begin(s.ID)
	defer r.settle(s, time.Now())
	name := target(s.Target).WithTag(s.Tag)
	if err := r.putTag(ctx, name, r.manifest(s), s.Previous); err != nil {
		fate, found := refusal(err)
		r.setFate(s, fate, found)
		return r.failed(e, err)
	}
	r.setFate(s, Moved, "")
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

// leastSettled is longer than a check and a write that nobody disturbs take.
const leastSettled = 250 * time.Millisecond

// settle notes how long the confirmation of a tag with a precondition has to
// wait. No registry writes a tag on condition, so another writer may have
// checked before this run wrote, and write after it. It is seen if it takes no
// more than twice as long between the two as this run did.
func (r *run) settle(s plan.Step, checked time.Time) {
	if !s.Check {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = max(r.settled, leastSettled, 2*time.Since(checked))
}

// mayMove checks the precondition of a move, if it has one. right is true when
// the tag names what it should already: an earlier run has moved it.
func (r *run) mayMove(ctx context.Context, s plan.Step) (right bool, _ error) {
	if !s.Check && !r.o.Again {
		return false, nil
	}
	now, err := r.o.Repository(target(s.Target)).Manifest(ctx, s.Tag)
	switch {
	case err != nil && !r.o.Absent(err):
		return false, err
	case err == nil && now.Digest == s.Digest:
		return true, nil
	case now.Digest == s.Previous:
		return false, nil
	}
	r.setFate(s, Refused, now.Digest)
	return false, &plan.PreconditionError{Tag: target(s.Target).WithTag(s.Tag), Expected: s.Previous, Found: now.Digest, Moved: true}
}

// writes bounds how often a tag is written whose PUTs are lost.
const writes = 3

// putTag writes a tag, and again when the answer was lost and the tag still names
// what it named before. One that names anything else is another writer's.
func (r *run) putTag(ctx context.Context, name ref.Reference, b oci.Blob, before digest.Digest) error {
	for n := 1; ; n++ {
		err := r.o.Repository(name.Repo()).PutTag(ctx, name.Tag, b)
		var unsettled *registry.UnsettledError
		switch {
		case !errors.As(err, &unsettled):
			return err
		case unsettled.Found != before:
			return &RaceError{Tag: name, Want: b.Digest, Got: unsettled.Found, PreviousIfKnown: before}
		case n == writes, n > 1 && registry.Silent(err):
			return err
		}
		if err := r.o.Sleep(ctx, httpchain.Backoff(n)); err != nil {
			return err
		}
	}
}

// refusal tells an answer of the registry, after which the tag is as it was, from
// a lost one, after which nobody knows, and from another writer.
func refusal(err error) (Fate, digest.Digest) {
	var race *RaceError
	var unsettled *registry.UnsettledError
	var answered *registry.Error
	switch {
	case errors.As(err, &race):
		return Lost, race.Got
	case errors.As(err, &unsettled):
		return Unknown, unsettled.Found
	case errors.As(err, &answered) && answered.Status >= 400 && answered.Status < 500:
		return Refused, ""
	}
	return Unknown, ""
}

// setFate notes what became of a tag, and what it names if that is not ours.
func (r *run) setFate(s plan.Step, f Fate, found digest.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := target(s.Target).WithTag(s.Tag)
	for i := range r.tags {
		if r.tags[i].Reference == name {
			r.tags[i].Fate, r.tags[i].Found = f, found
		}
	}
}

// confirmTag reads the tag. The old digest is lag within the window; any other
// one is another writer's. A tag that was right before has no older one.
func (r *run) confirmTag(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.ReadBack, report.Started)
	r.o.Report.Send(e)
	if s.Check {
		if err := r.o.Sleep(ctx, r.settled); err != nil {
			return r.failed(e, err)
		}
	}
	repo := r.o.Repository(target(s.Target))
	err := r.within(ctx, r.lagging, func() error { return r.tagNames(ctx, repo, s) })
	var race *RaceError
	if errors.As(err, &race) {
		r.setFate(s, Lost, race.Got)
	}
	if err != nil {
		return r.failed(e, err)
	}
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

// staleError is a tag that still names what it named before.
type staleError struct{ digest digest.Digest }

func (e *staleError) Error() string { return fmt.Sprintf("the tag still names %s", e.digest) }

func (r *run) lagging(err error) bool {
	var stale *staleError
	return errors.As(err, &stale) || r.o.Absent(err)
}

func (r *run) tagNames(ctx context.Context, repo Reader, s plan.Step) error {
	got, err := repo.Manifest(ctx, s.Tag)
	switch {
	case err != nil && (s.Previous != s.Digest || !r.o.Absent(err)):
		return err
	case got.Digest == s.Digest:
		return nil
	case got.Digest == s.Previous:
		return &staleError{digest: got.Digest}
	}
	return &RaceError{Tag: target(s.Target).WithTag(s.Tag), Want: s.Digest, Got: got.Digest, PreviousIfKnown: s.Previous, Other: describe(got)}
}

func (r *run) count(f Fate) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, t := range r.tags {
		if t.Fate == f {
			n++
		}
	}
	return n
}
