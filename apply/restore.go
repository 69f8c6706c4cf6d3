package apply

import (
	"context"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// halfway reports that some tags have moved, or may have, and others have not.
// When all have moved, whatever went wrong came after, and putting the tags back
// would undo a publish that happened.
func (r *run) halfway() bool {
	return slices.ContainsFunc(r.tags, r.ours) && r.count(Refused)+r.count(Untried)+r.count(Unknown) > 0
}

// ours reports a tag that this publish has moved, or may have: in this run or,
// where it goes on, in the one before. Any other that is right was another
// writer's doing.
func (r *run) ours(t TagResult) bool {
	return t.Fate == Moved || t.Fate == Unknown || t.Fate == Unchanged && r.o.Again
}

// restore puts moved tags back to what they named, unless another writer has
// moved them since. It ends with ctx: an interrupted run writes no tag, and a
// tag whose turn did not come stays moved.
func (r *run) restore(ctx context.Context) {
	r.each(func(t *TagResult) {
		if r.ours(*t) {
			t.Fate = r.restoreTag(ctx, *t)
		}
	})
}

// each changes the results of the tags one after another; they can be read
// meanwhile.
func (r *run) each(change func(*TagResult)) {
	for i := range r.tags {
		r.mu.Lock()
		t := r.tags[i]
		r.mu.Unlock()
		change(&t)
		r.mu.Lock()
		r.tags[i] = t
		r.mu.Unlock()
	}
}

func (r *run) restoreTag(ctx context.Context, t TagResult) Fate {
	repo := r.o.Repository(t.Reference.Repo())
	e := report.Event{Kind: report.Restore, State: report.Done, Target: t.Reference.String(), Digest: t.Previous, Previous: t.Digest}
	switch now, err := repo.Manifest(ctx, t.Reference.Tag); {
	case ctx.Err() != nil, t.Fate == Unknown && err != nil && !r.o.Absent(err):
		return t.Fate // nobody knows what a PUT would take away
	case err == nil && now.Digest == t.Previous, err != nil && t.Previous == "" && r.o.Absent(err):
		return Refused
	case err == nil && now.Digest != t.Digest:
		return Lost
	}
	switch err := r.writeBack(ctx, repo, t.Reference, t.Previous); {
	case err != nil && ctx.Err() != nil:
		return Unknown
	case err != nil:
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

// askTime bounds the reading of tags after an interruption.
const askTime = 5 * time.Second

// ask reads the tags whose PUT was cut off. One that names what was there before
// stays unknown: the registry may still be at it.
func (r *run) ask(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer stop()
	r.each(func(t *TagResult) {
		if t.Fate != Unknown {
			return
		}
		now, err := r.o.Repository(t.Reference.Repo()).Manifest(ctx, t.Reference.Tag)
		switch {
		case err != nil:
		case now.Digest == t.Digest:
			t.Fate = Moved
		default:
			t.Found = now.Digest
		}
	})
}
