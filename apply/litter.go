package apply

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Cleaner removes manifests from one repository.
type Cleaner interface {
	// Tagged calls each with what every tag names, in any order, and stops at
	// the first error, its own or that of each.
	Tagged(ctx context.Context, each func(oci.Blob) error) error
	DeleteManifest(ctx context.Context, d digest.Digest) error
}

// cleanTime bounds the clean-up after a failed run.
const cleanTime = 30 * time.Second

// cleanUp takes away what a failed run has put and nobody uses, and lists the
// rest. See docs/decisions/0009: only after a refusal, since what an
// interrupted run has put is what the next one goes on with; only what this run
// knows not to have been there before; and only what no tag of the repository
// leads to.
func (r *run) cleanUp(ctx context.Context, failure error) {
	bounded, stop := context.WithTimeout(ctx, cleanTime)
	defer stop()
	for _, repo := range repositories(r.result.Written) {
		mine := slices.DeleteFunc(slices.Clone(r.result.Written), func(w Written) bool { return w.Repository != repo })
		slices.Reverse(mine) // parents before what they point at
		var used map[digest.Digest]bool
		reason := r.keep(ctx, failure)
		if reason == "" {
			used, reason = r.used(bounded, mine[0])
		}
		for _, w := range mine {
			r.clean(bounded, w, used, reason)
		}
	}
}

// keep is why nothing is removed after a failure, empty when it is to be.
func (r *run) keep(ctx context.Context, failure error) string {
	var race *RaceError
	switch {
	case ctx.Err() != nil, !Final(failure):
		return "the run can be taken up again"
	case errors.As(failure, &race):
		return "another writer has the tag, this can be tagged again"
	case r.count(Moved)+r.count(Stuck)+r.count(Unknown) > 0:
		return "a tag may lead to it"
	}
	return ""
}

// clean removes one manifest unless there is a reason against it.
func (r *run) clean(ctx context.Context, w Written, used map[digest.Digest]bool, reason string) {
	switch {
	case reason != "":
	case used[w.Digest]:
		return // a tag leads to it
	case !r.made(w):
		reason = "it may have been there before"
	default:
		if err := r.o.Cleaner(w.Repository).DeleteManifest(ctx, w.Digest); err != nil {
			reason = err.Error()
			break
		}
		r.o.Report.Send(report.Event{Kind: report.Remove, State: report.Done, Target: w.Repository.Name(), Digest: w.Digest})
		r.result.Removed = append(r.result.Removed, w)
		return
	}
	r.result.Left = append(r.result.Left, Left{Written: w, Reason: reason})
}

// Final reports a failure after which the same run would fail again: an answer
// that says no, other content than was asked for, another writer. After any
// other one it can be taken up.
func Final(err error) bool {
	var race *RaceError
	var precondition *plan.PreconditionError
	var mismatch *oci.MismatchError
	if errors.As(err, &race) || errors.As(err, &precondition) || errors.As(err, &mismatch) {
		return true
	}
	var e *registry.Error
	for ; errors.As(err, &e); err = e.Cause { // what was read for it is the cause of what could not be written
		if refuses(e.Status) {
			return true
		}
	}
	return false
}

func refuses(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout
}

// used is everything that the tags of a repository lead to, or the reason why
// that cannot be known.
func (r *run) used(ctx context.Context, in Written) (map[digest.Digest]bool, string) {
	if r.o.Cleaner == nil {
		return nil, "nothing is removed here"
	}
	used := map[digest.Digest]bool{}
	err := r.o.Cleaner(in.Repository).Tagged(ctx, func(b oci.Blob) error {
		used[b.Digest] = true
		if !oci.IsIndex(b.MediaType) {
			return nil
		}
		idx, err := oci.ParseIndex(b)
		for _, e := range idx.Manifests {
			used[e.Digest] = true
			if oci.IsIndex(e.MediaType) {
				return fmt.Errorf("%s has an index in it", b.Digest)
			}
		}
		return err
	})
	if err != nil && !r.o.Absent(err) {
		return nil, "whether a tag leads to it is not known: " + err.Error()
	}
	return used, ""
}

// made reports whether this run knows that a manifest was not there before: a
// manifest cannot have been there whole when something that it points at was
// not.
func (r *run) made(w Written) bool {
	b, ok := r.plan.Manifest(w.Digest)
	if !ok {
		return false
	}
	refs, err := oci.References(b)
	if err != nil {
		return false
	}
	for _, d := range refs {
		if r.fresh[content{target: w.Repository.Name(), digest: d.Digest}] {
			return true
		}
		child := Written{Repository: w.Repository, Digest: d.Digest}
		if oci.IsManifest(d.MediaType) && r.made(child) {
			return true
		}
	}
	return false
}

func repositories(all []Written) []ref.Reference {
	var out []ref.Reference
	for _, w := range all {
		if !slices.Contains(out, w.Repository) {
			out = append(out, w.Repository)
		}
	}
	return out
}
