package manifold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/internal/journal"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// keepUnfinished is how long a publish that nobody took up again is remembered.
const keepUnfinished = 7 * 24 * time.Hour

// Unfinished is a publish that was interrupted.
type Unfinished struct {
	// Path is the file that remembers it.
	Path    string
	Started time.Time
	Plan    plan.Plan
	// Done is how many of the plan's steps are known to be done.
	Done int
}

// UnreadableError reports a file that remembers a publish and is damaged, or of
// another version of this program. Err names the file.
type UnreadableError struct {
	Path string
	Err  error
}

func (e *UnreadableError) Error() string { return e.Err.Error() }

func (e *UnreadableError) Unwrap() error { return e.Err }

// Unfinished lists the publishes in Options.JournalDir that were interrupted,
// the oldest first. Files that cannot be read are an error beside the others:
// one or more, joined, [*UnreadableError].
func (m *Manifold) Unfinished() ([]Unfinished, error) {
	if m.o.JournalDir == "" {
		return nil, nil
	}
	records, faults, err := journal.List(m.o.JournalDir)
	var out []Unfinished
	for _, r := range records {
		u, err := unfinished(r)
		if err != nil {
			faults = append(faults, journal.Fault{Path: r.Path, Err: err})
			continue
		}
		out = append(out, u)
	}
	errs := []error{err}
	for _, f := range faults {
		errs = append(errs, &UnreadableError{Path: f.Path, Err: f.Err})
	}
	return out, errors.Join(errs...)
}

// ReadUnfinished reads the file of one.
func ReadUnfinished(path string) (Unfinished, error) {
	r, err := journal.Read(path)
	if err != nil {
		return Unfinished{}, err
	}
	return unfinished(r)
}

// Forget removes the file of one: nothing takes it up any more, and what it has
// sent stays. The error is one of the file system, or that a process is at it.
func Forget(path string) error { return journal.Remove(path) }

func unfinished(r journal.Record) (Unfinished, error) {
	p, err := plan.Read(bytes.NewReader(r.Head))
	if err != nil {
		return Unfinished{}, fmt.Errorf("%s: %w", r.Path, err)
	}
	return Unfinished{Path: r.Path, Started: r.Started, Plan: p, Done: len(r.Done)}, nil
}

// Apply runs a plan that was saved, if its tags still name what they named when
// it was made; else the error is an [*apply.WorldError] and nothing was
// written. Tags are looked at once more just before they move. Other errors are
// those of [apply.Run].
func (m *Manifold) Apply(ctx context.Context, p plan.Plan) (Receipt, error) {
	started := time.Now()
	if err := p.Validate(); err != nil {
		return Receipt{}, err
	}
	o := m.applying(nil)
	var err error
	if o.Again, err = apply.Compare(ctx, p, o); err != nil {
		return receipt(p, untried(p, err), m.reg.Stats(), started).failed(err), err
	}
	return m.carryOut(ctx, p.Checked(), o, started)
}

// untried says of each tag that nothing was done to it; one that was right and
// is no more has been moved by another writer.
func untried(p plan.Plan, err error) apply.Result {
	found := map[ref.Reference]digest.Digest{}
	var world *apply.WorldError
	if errors.As(err, &world) {
		for _, d := range world.Differences {
			found[d.Tag] = d.Found
		}
	}
	var res apply.Result
	for _, s := range append(p.TagMoves(), p.Kept()...) {
		host, repo, _ := strings.Cut(s.Target, "/")
		t := ref.Reference{Host: host, Repository: repo}.WithTag(s.Tag)
		now, differs := found[t]
		fate := apply.Untried
		if s.Op == plan.ConfirmTag {
			fate = map[bool]apply.Fate{true: apply.Lost, false: apply.Unchanged}[differs]
		}
		res.Tags = append(res.Tags, apply.TagResult{Reference: t, Digest: s.Digest, Previous: s.Previous, Fate: fate, Found: now})
	}
	return res
}

// openJournal opens the journal of a plan, or returns nil when there is no place
// for one, or nothing to remember.
func (m *Manifold) openJournal(p plan.Plan) *record {
	if m.o.JournalDir == "" || writesArchive(p) {
		return nil
	}
	if err := keepable(p); err != nil {
		m.o.Report.Warn("", fmt.Sprintf("no journal, so this run cannot be taken up by another: %v", err))
		return nil
	}
	if err := journal.Prune(m.o.JournalDir, keepUnfinished); err != nil {
		m.o.Report.Warn("", fmt.Sprintf("old journals stay: %v", err))
	}
	head, err := planBytes(p)
	if err != nil {
		m.o.Report.Warn("", fmt.Sprintf("no journal: %v", err))
		return nil
	}
	j, earlier, err := journal.Open(m.o.JournalDir, p.Key().Encoded()[:32], head)
	if err != nil {
		m.o.Report.Warn("", fmt.Sprintf("no journal, so this run cannot be taken up by another: %v", err))
		return nil
	}
	r := &record{Journal: j}
	if earlier != nil {
		u, err := unfinished(*earlier)
		if err != nil {
			_ = j.Restart(head) // its fault shows when it is written to
			return r
		}
		r.earlier = &u.Plan
	}
	return r
}

// writesArchive reports a plan of which nothing is left when it is interrupted:
// an archive appears when it is whole.
func writesArchive(p plan.Plan) bool {
	return slices.ContainsFunc(p.Steps, func(s plan.Step) bool {
		return strings.HasPrefix(s.Target, string(ref.OCIArchive)+":")
	})
}

// record is the journal of a run, and what an earlier one set out to do.
type record struct {
	*journal.Journal
	earlier *plan.Plan
}

// planBytes is a plan on one line.
func planBytes(p plan.Plan) ([]byte, error) {
	var b bytes.Buffer
	if err := p.WriteLine(&b); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// takeUp returns the plan to run: the one of an earlier run that was
// interrupted, since that knows what the tags named before, unless they name
// something else by now. Its content comes from where p has it, if it can.
func (m *Manifold) takeUp(ctx context.Context, p plan.Plan, j *record, o apply.Options) plan.Plan {
	_, err := apply.Compare(ctx, *j.earlier, o)
	if err == nil {
		return j.earlier.WithSources(p)
	}
	var world *apply.WorldError
	if errors.As(err, &world) {
		m.o.Report.Warn("", fmt.Sprintf("since an earlier run was interrupted, tags have moved: %v", err))
	}
	if head, err := planBytes(p); err == nil {
		_ = j.Restart(head) // its fault shows when it is written to
	}
	return p
}

// UnfinishedError reports a publish that was cut off, by its context or by the
// network, and that another run can finish.
type UnfinishedError struct {
	// Path is the file that remembers it.
	Path string
	Err  error
}

func (e *UnfinishedError) Error() string { return e.Err.Error() }

func (e *UnfinishedError) Unwrap() error { return e.Err }

// closeJournal forgets a run that is done, or that would fail again the same
// way. A failure of one that is remembered becomes an [*UnfinishedError].
func (m *Manifold) closeJournal(ctx context.Context, j *record, failure error) error {
	if j == nil {
		return failure
	}
	if err := j.Err(); err != nil {
		m.o.Report.Warn("", fmt.Sprintf("the journal is not whole: %v", err))
	}
	end := j.Remove
	if failure != nil && (ctx.Err() != nil || !apply.Final(failure)) {
		end = j.Close
		failure = &UnfinishedError{Path: j.Path(), Err: failure}
	}
	if err := end(); err != nil {
		m.o.Report.Warn("", fmt.Sprintf("the journal stays: %v", err))
	}
	return failure
}
