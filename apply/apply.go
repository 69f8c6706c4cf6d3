// Package apply is the one writer: it runs a plan against registries, as a
// transaction over its tags.
//
// Content goes to every target first, in the order that the plan's
// dependencies allow, as parallel as the per-host limits allow. Nothing names a
// tag before all of it has been read back. Tags then move one after another,
// each by exactly one PUT; when one is refused, those already moved are put back
// to what they named. At the end the tags and the children are read once more,
// and children that a tag move made vanish (zot does that) are put back.
//
// A run that is interrupted, by the end of its context, writes no tag any more,
// neither forward nor back. Each tag then names the old or the new content, both
// whole, and running the plan again finishes it.
//
// apply makes no decisions about what to write and never changes a byte. It
// refuses a plan whose steps cannot be run ([plan.Plan.Runnable]).
//
// Read apply.go first, then steps.go (what each step does), tags.go (moving,
// lost races), restore.go, litter.go (what a failed run leaves), world.go (what
// a saved plan is checked against) and schedule.go (what runs when).
package apply

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/internal/clock"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Writer writes to one repository.
type Writer interface {
	CopyBlob(ctx context.Context, d oci.Descriptor, from []string, open func(context.Context) (io.ReadCloser, error)) (registry.Outcome, error)
	PutManifest(ctx context.Context, b oci.Blob) error
	PutTag(ctx context.Context, tag string, b oci.Blob) error
	DeleteTag(ctx context.Context, tag string) error
}

// Reader reads from one repository.
type Reader interface {
	// Manifest returns what a tag or digest names.
	Manifest(ctx context.Context, identifier string) (oci.Blob, error)
	// StatBlob reports whether a blob is there.
	StatBlob(ctx context.Context, d oci.Descriptor) (bool, error)
}

// Repository is one repository, read and written.
type Repository interface {
	Reader
	Writer
}

// BlobOpener reads blobs from one place; the bytes are checked against the
// descriptor by the time they end.
type BlobOpener interface {
	OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error)
}

// Options say what a plan runs against.
type Options struct {
	// Repository opens a target.
	Repository func(ref.Reference) Repository
	// Place opens a place that a plan names as the source of blobs.
	Place func(place string) (BlobOpener, error)
	// Absent reports whether an error of a [Reader] means that the thing is not
	// there.
	Absent func(error) bool
	// Lag bounds how long content that a registry has acknowledged may stay
	// invisible, or a tag keep its old digest; 30 s when zero.
	Lag time.Duration
	// Again says that an earlier run may have done a part of the plan: content
	// is asked for before it is sent, and tags before they move.
	Again bool
	// Journal is told of each step; nil keeps none.
	Journal Journal
	// Cleaner removes what a failed run has written; nil only lists it.
	Cleaner func(ref.Reference) Cleaner
	// Sleep waits; nil waits for real. It returns early with the context's
	// error.
	Sleep  func(context.Context, time.Duration) error
	Report report.Sink
}

// Journal is a record that outlives the process. It keeps its own faults to
// itself: a run goes on without it.
type Journal interface {
	// Begin notes a step before it changes what others see.
	Begin(step string)
	// Done notes a step that is done.
	Done(step string)
}

// Fate says what became of a tag.
type Fate string

// The fates of a tag.
const (
	Moved     Fate = "moved"
	Unchanged Fate = "unchanged" // named what it should when its turn came; not written
	Refused   Fate = "refused"   // the registry said no; the tag is as before
	Restored  Fate = "restored"  // was moved, then put back
	Stuck     Fate = "stuck"     // was moved and could not be put back
	Lost      Fate = "lost"      // another writer has moved it since
	Untried   Fate = "untried"   // the run ended before its turn
	Unknown   Fate = "unknown"   // the answer was lost, and the tag does not tell
)

// TagResult is the fate of one tag.
type TagResult struct {
	Reference ref.Reference
	Digest    digest.Digest // what the run wanted it to name
	Previous  digest.Digest // what it named before this run, empty for nothing
	Fate      Fate
	// Found is what the tag names instead, when Fate is Lost, or what it was last
	// seen to name, when Fate is Unknown.
	Found digest.Digest
}

// Result is what a run did, on failure too.
type Result struct {
	Tags []TagResult
	// Uploaded, Mounted and Present count blobs, all targets together.
	Uploaded, Mounted, Present int
	// UploadedBytes counts the bytes of uploaded blobs.
	UploadedBytes int64
	// Written are the manifests that the run has put by digest, per target,
	// in the order in which they were acknowledged.
	Written []Written
	// PutBack are children that vanished when a tag moved and were sent again.
	PutBack []digest.Digest
	// Removed are manifests of Written that a failed run has taken away again;
	// Left are those that it could not or must not, with the reason.
	Removed []Written
	Left    []Left
}

// Nothing reports a run that found everything there and wrote nothing.
func (r Result) Nothing() bool {
	return len(r.Written)+len(r.PutBack)+r.Uploaded+r.Mounted == 0 &&
		len(r.Tags) > 0 && !slices.ContainsFunc(r.Tags, func(t TagResult) bool { return t.Fate != Unchanged })
}

// Written is a manifest that a run has put.
type Written struct {
	Repository ref.Reference
	Digest     digest.Digest
}

// Left is a manifest that a failed run leaves behind.
type Left struct {
	Written
	Reason string
}

// StepError reports the step at which a run ended.
type StepError struct {
	Step plan.Step
	Err  error
}

func (e *StepError) Error() string {
	text := e.Err.Error()
	if strings.HasPrefix(text, e.Step.Target) {
		return text // it names the place, and what was done there
	}
	what := e.Step.Digest.String()
	if e.Step.Tag != "" {
		what = e.Step.Tag
	}
	return fmt.Sprintf("%s: %s %s: %s", e.Step.Target, e.Step.Op, what, text)
}

func (e *StepError) Unwrap() error { return e.Err }

// RaceError reports that a tag names something that neither this run nor the
// state before it put there: another writer was faster or slower.
type RaceError struct {
	Tag             ref.Reference
	Want, Got       digest.Digest
	PreviousIfKnown digest.Digest
	// Other tells what the other writer has put there, as far as it says so
	// itself; empty when it does not.
	Other string
}

func (e *RaceError) Error() string {
	names := "names " + e.Got.String()
	if e.Got == "" {
		names = "is gone"
	}
	had := "put"
	if e.Want == e.PreviousIfKnown {
		had = "found"
	}
	s := fmt.Sprintf("%s: another writer moved the tag: it %s, this run had %s %s", e.Tag, names, had, e.Want)
	if e.Other != "" {
		s += "; what is there now is " + e.Other
	}
	return s
}

// InvisibleError reports content that a registry acknowledged and then did not
// show within the lag window.
type InvisibleError struct {
	Waited time.Duration
	Err    error
}

func (e *InvisibleError) Error() string {
	return fmt.Sprintf("accepted but not visible after %s: %v", e.Waited, e.Err)
}

func (e *InvisibleError) Unwrap() error { return e.Err }

// Run carries out p. The result tells what happened also when there is an
// error; a [*StepError] names the step, and wraps a [*RaceError], a
// [*plan.PreconditionError], an [*InvisibleError], an [*oci.MismatchError] or
// what the registry answered.
func Run(ctx context.Context, p plan.Plan, o Options) (Result, error) {
	if err := p.Runnable(); err != nil {
		return Result{}, err
	}
	r := newRun(p, o)
	err := r.schedule(ctx)
	if err != nil {
		r.undo(ctx, err)
	}
	return r.finish(), err
}

// undo ends a run that has failed: as if it had never begun if it was refused,
// as it stands if it was interrupted.
func (r *run) undo(ctx context.Context, failure error) {
	if ctx.Err() == nil && r.halfway() {
		r.restore(ctx)
	}
	r.cleanUp(ctx, failure)
	if ctx.Err() != nil {
		r.ask(ctx)
	}
}

func newRun(p plan.Plan, o Options) *run {
	if o.Lag == 0 {
		o.Lag = defaultLag
	}
	if o.Sleep == nil {
		o.Sleep = clock.Sleep
	}
	if o.Journal == nil {
		o.Journal = noJournal{}
	}
	r := &run{plan: p, o: o, fresh: map[content]bool{}, seen: map[content]bool{}}
	for _, s := range p.TagMoves() {
		r.tags = append(r.tags, TagResult{
			Reference: target(s.Target).WithTag(s.Tag), Digest: s.Digest, Previous: s.Previous, Fate: Untried,
		})
	}
	for _, s := range p.Kept() {
		r.tags = append(r.tags, TagResult{
			Reference: target(s.Target).WithTag(s.Tag), Digest: s.Digest, Previous: s.Previous, Fate: Unchanged,
		})
	}
	return r
}

func (r *run) finish() Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.result
	out.Tags = slices.Clone(r.tags)
	for i, t := range out.Tags {
		if t.Fate == Unchanged {
			out.Tags[i].Previous = t.Digest
		}
	}
	return out
}

// noJournal is nobody's memory.
type noJournal struct{}

func (noJournal) Begin(string) {}
func (noJournal) Done(string)  {}
