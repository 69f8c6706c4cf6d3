package apply

import (
	"context"
	"errors"
	"fmt"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// moveTag writes the tag, by the one PUT that names it.
func (r *run) moveTag(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.Tag, report.Started)
	e.Previous = s.Previous
	r.o.Report.Send(e)
	err := r.o.Repository(target(s.Target)).PutTag(ctx, s.Tag, r.manifest(s))
	if err != nil {
		r.setFate(s, refusal(err))
		return r.failed(e, err)
	}
	r.setFate(s, Moved)
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

// refusal tells an answer of the registry, after which the tag is as it was,
// from a lost one, after which nobody knows.
func refusal(err error) Fate {
	var answered *registry.Error
	if errors.As(err, &answered) && answered.Status >= 400 && answered.Status < 500 {
		return Refused
	}
	return Unknown
}

func (r *run) setFate(s plan.Step, f Fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := target(s.Target).WithTag(s.Tag)
	for i := range r.tags {
		if r.tags[i].Reference == name {
			r.tags[i].Fate = f
		}
	}
}

// confirmTag reads the tag. The old digest is lag within the window; any other
// one is another writer's.
func (r *run) confirmTag(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.ReadBack, report.Started)
	r.o.Report.Send(e)
	repo := r.o.Repository(target(s.Target))
	err := r.within(ctx, r.lagging, func() error { return r.tagNames(ctx, repo, s) })
	var race *RaceError
	if errors.As(err, &race) {
		r.lost(s, race.Got)
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
	case err != nil:
		return err
	case got.Digest == s.Digest:
		return nil
	case got.Digest == s.Previous:
		return &staleError{digest: got.Digest}
	}
	return &RaceError{Tag: target(s.Target).WithTag(s.Tag), Want: s.Digest, Got: got.Digest, PreviousIfKnown: s.Previous}
}

func (r *run) lost(s plan.Step, found digest.Digest) {
	r.setFate(s, Lost)
	r.mu.Lock()
	defer r.mu.Unlock()
	name := target(s.Target).WithTag(s.Tag)
	for i := range r.tags {
		if r.tags[i].Reference == name {
			r.tags[i].Found = found
		}
	}
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

// halfway reports that some tags have moved, or may have, and others have not.
// When all have moved, whatever went wrong came after, and putting the tags back
// would undo a publish that happened.
func (r *run) halfway() bool {
	moved := r.count(Moved) + r.count(Unknown)
	return moved > 0 && r.count(Refused)+r.count(Untried)+r.count(Unknown) > 0
}

// restore puts moved tags back to what they named, unless another writer has
// moved them since. It runs also when the run was interrupted.
func (r *run) restore(ctx context.Context) {
	for i := range r.tags {
		r.mu.Lock()
		t := r.tags[i]
		r.mu.Unlock()
		if t.Fate != Moved && t.Fate != Unknown {
			continue
		}
		fate := r.restoreTag(ctx, t)
		r.mu.Lock()
		r.tags[i].Fate = fate
		r.mu.Unlock()
	}
}

func (r *run) restoreTag(ctx context.Context, t TagResult) Fate {
	repo := r.o.Repository(t.Reference.Repo())
	e := report.Event{Kind: report.Restore, State: report.Done, Target: t.Reference.String(), Digest: t.Previous, Previous: t.Digest}
	switch now, err := repo.Manifest(ctx, t.Reference.Tag); {
	case err == nil && now.Digest == t.Previous, err != nil && t.Previous == "" && r.o.Absent(err):
		return Refused
	case err == nil && now.Digest != t.Digest:
		return Lost
	}
	if err := r.writeBack(ctx, repo, t.Reference, t.Previous); err != nil {
		_ = r.failed(e, err)
		return Stuck
	}
	r.o.Report.Send(e)
	return Restored
}

// writeBack names the previous content again, or removes a tag that was not
// there.
func (r *run) writeBack(ctx context.Context, w Writer, name ref.Reference, previous digest.Digest) error {
	if previous == "" {
		return w.DeleteTag(ctx, name.Tag)
	}
	b, ok := r.plan.Manifest(previous)
	if !ok {
		return &oci.MismatchError{What: "previous content", Want: previous.String(), Got: "not in the plan"}
	}
	return w.PutTag(ctx, name.Tag, b)
}
