package apply

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// halfway reports that some tags have moved, or may have, and others have not.
// When all have moved, whatever went wrong came after, and putting the tags back
// would undo a publish that happened.
func (r *run) halfway() bool {
	return slices.ContainsFunc(r.tags, r.ours) && r.count(Refused)+r.count(Untried)+r.count(Unknown) > 0
}

// ours reports a tag that this publish has moved, or may have: in this run or,
// where it goes on, in the one before. Any other that is right was another
// writer's doing, or was so when the plan was made.
func (r *run) ours(t TagResult) bool {
	return t.Fate == Moved || t.Fate == Unknown || t.Fate == Unchanged && r.o.Again && t.Previous != t.Digest
}

// restore puts moved tags back to what they named, unless another writer has
// moved them since. It ends with ctx: an interrupted run writes no tag, and a
// tag whose turn did not come stays moved.
func (r *run) restore(ctx context.Context) {
	r.each(func(t *TagResult) {
		if r.ours(*t) {
			r.restoreTag(ctx, t)
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

// restoreTag puts a tag back, if it names what this publish has put. The PUT of
// one that was acknowledged may not be seen yet, and is undone by another; one whose
// answer was lost may be carried out any time, and is left as unknown.
func (r *run) restoreTag(ctx context.Context, t *TagResult) {
	now, err := r.o.Repository(t.Reference.Repo()).Manifest(ctx, t.Reference.Tag)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil && !r.o.Absent(err):
		r.cannotRestore(t, err) // nobody knows what a PUT would take away
		return
	case now.Digest == t.Previous && t.Fate == Unknown:
		t.Found = now.Digest
		return
	case now.Digest != t.Previous && now.Digest != t.Digest:
		t.Fate, t.Found = Lost, now.Digest
		return
	}
	var race *RaceError
	switch err := r.writeBack(ctx, *t); {
	case err != nil && ctx.Err() != nil:
		t.Fate = Unknown
	case errors.As(err, &race):
		t.Fate, t.Found = Lost, race.Got
	case err != nil:
		r.cannotRestore(t, err)
	default:
		t.Fate = Restored
		r.o.Report.Send(restoring(*t))
	}
}

func restoring(t TagResult) report.Event {
	return report.Event{Kind: report.Restore, State: report.Done, Target: t.Reference.String(), Digest: t.Previous, Previous: t.Digest}
}

// cannotRestore notes a tag that stays as it is. Whether it moved is known, or not.
func (r *run) cannotRestore(t *TagResult, err error) {
	_ = r.failed(restoring(*t), err)
	if t.Fate != Unknown {
		t.Fate = Stuck
	}
}

// writeBack names the previous content again, or removes a tag that was not
// there.
func (r *run) writeBack(ctx context.Context, t TagResult) error {
	if t.Previous == "" {
		err := r.o.Repository(t.Reference.Repo()).DeleteTag(ctx, t.Reference.Tag)
		if err != nil && r.o.Absent(err) {
			return nil
		}
		return err
	}
	b, ok := r.plan.Manifest(t.Previous)
	if !ok {
		return &oci.MismatchError{What: "previous content", Want: t.Previous.String(), Got: "not in the plan"}
	}
	return r.putTag(ctx, t.Reference, b, t.Digest)
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
