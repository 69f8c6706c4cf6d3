package apply

import (
	"context"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

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
