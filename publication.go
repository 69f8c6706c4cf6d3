package manifold

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// PublishOptions are what every verb that publishes takes. The zero value moves
// tags whatever they name.
type PublishOptions struct {
	// Expect are preconditions on tags of the targets.
	Expect []Expectation
	// NoClobber wants every tag without an Expectation not to be there yet, or
	// to be right already.
	NoClobber bool
}

// Expectation is what a tag must name before it may move.
type Expectation = publish.Expectation

// ParseExpectation reads TAG=DIGEST for the targets that have the tag; TAG may
// be a whole reference, DIGEST "none".
func ParseExpectation(s string, targets []ref.Reference) ([]Expectation, error) {
	return publish.ParseExpectation(s, targets)
}

// publication is one content on its way to its targets.
type publication struct {
	PublishOptions
	verb    string
	content publish.Content
	targets []ref.Reference
	// more is published along with it, before any tag moves.
	more []publish.Item
	// places are sources of blobs that only this run knows, by the name that
	// the plan has for them.
	places map[string]apply.BlobOpener
	// removed are the platforms that are taken away on purpose.
	removed []string
	// dry stops after the plan.
	dry bool
}

// run is the second half of the walk: content and targets to a plan, the plan
// to the registries, and what happened to a receipt, also when it failed.
func (m *Manifold) run(ctx context.Context, w publication) (plan.Plan, Receipt, error) {
	started := time.Now()
	o := m.planning(w.verb)
	o.Targets, o.Expect, o.NoClobber, o.Removed = w.targets, w.Expect, w.NoClobber, w.removed
	p, err := w.plan(ctx, o)
	if err != nil {
		r := receipt(wanted(w), unplanned(w, err), m.reg.Stats(), started)
		return p, r.failed(err), err
	}
	if w.dry {
		return p, Receipt{}, keepable(p)
	}
	r, err := m.carryOut(ctx, p, m.applying(w.places), started)
	return p, r, err
}

// plan makes the plan; that of an image without an index, or with what refers to
// it, is a copy's.
func (w publication) plan(ctx context.Context, o publish.Options) (plan.Plan, error) {
	if oci.IsIndex(w.content.Root.MediaType) && len(w.more) == 0 {
		return publish.Make(ctx, w.content, o)
	}
	return publish.MakeAll(ctx, append([]publish.Item{{Content: w.content, Targets: w.targets}}, w.more...), o)
}

// planning are the options of a planner.
func (m *Manifold) planning(verb string) publish.Options {
	return publish.Options{
		Verb: verb, Absent: absent, Report: m.o.Report,
		Open: func(r ref.Reference) publish.Prober { return m.target(r) },
	}
}

// carryOut runs a plan, with a journal if there is a place for it, and says what
// happened.
func (m *Manifold) carryOut(ctx context.Context, p plan.Plan, o apply.Options, started time.Time) (Receipt, error) {
	for _, w := range p.Warnings {
		m.o.Report.Warn("", w)
	}
	j := m.openJournal(p)
	if j != nil {
		o.Journal = j
	}
	if j != nil && j.earlier != nil {
		o.Again = true
		p = m.takeUp(ctx, p, j, o)
	}
	result, err := apply.Run(ctx, p, o)
	if err == nil {
		err = m.commit()
	}
	err = m.closeJournal(ctx, j, err)
	return receipt(p, result, m.reg.Stats(), started).failed(err), err
}

// sendBelow carries out what a plan says about everything below its root, which
// is written by digest, and returns the plan for the rest: that needs nothing
// that only this run has. When it fails, the receipt says what it has written; no
// tag was tried.
func (m *Manifold) sendBelow(ctx context.Context, p plan.Plan, places map[string]apply.BlobOpener) (plan.Plan, Receipt, error) {
	now, later := p.Split(func(s plan.Step) bool {
		return s.Op == plan.CopyBlob || s.Op == plan.PutManifest && s.Digest != p.Root.Digest
	})
	if len(now.Steps) == 0 {
		return later, Receipt{}, nil
	}
	started := time.Now()
	result, err := apply.Run(ctx, now, m.applying(places))
	if err == nil {
		return later, Receipt{}, nil
	}
	result.Tags = untried(p, err).Tags
	return later, receipt(p, result, m.reg.Stats(), started).failed(err), err
}

// applying are the options of the writer.
func (m *Manifold) applying(places map[string]apply.BlobOpener) apply.Options {
	return apply.Options{
		Repository: func(r ref.Reference) apply.Repository { return m.target(r) },
		Place:      func(name string) (apply.BlobOpener, error) { return m.source(name, places) },
		Cleaner:    m.cleanerOf,
		Absent:     absent, Lag: m.o.Lag, Report: m.o.Report,
	}
}

// source finds a place again by the name it has in a plan. What this run has read
// from is open under that name.
func (m *Manifold) source(name string, places map[string]apply.BlobOpener) (apply.BlobOpener, error) {
	if b, ok := places[name]; ok {
		return b, nil
	}
	if l := m.opened(name, nil); l != nil {
		return l, nil
	}
	if strings.HasPrefix(name, builtPlace) {
		return nil, errors.New("was made by a build that is gone; run the same build again")
	}
	l, err := parsePlace(name)
	if err != nil {
		return nil, err
	}
	p, _, err := m.open(context.Background(), l)
	return p, err
}

// builtPlace begins the names of places that only the run of a build knows.
const builtPlace = "build:"

// mostTags bounds how many tags of a repository are looked at before something
// is removed from it.
const mostTags = 200

// cleaner removes manifests from a repository of which every tag is known.
type cleaner struct{ *registry.Repository }

// Tagged reads what every tag names, by one GET each.
func (c cleaner) Tagged(ctx context.Context, each func(oci.Blob) error) error {
	n := 0
	for tag, err := range c.Tags(ctx) {
		if err != nil {
			return err
		}
		if n++; n > mostTags {
			return fmt.Errorf("it has more than %d tags", mostTags)
		}
		b, err := c.Manifest(ctx, tag)
		if err == nil {
			err = each(b)
		}
		if err != nil && !registry.Absent(err) {
			return err
		}
	}
	return nil
}

// DeleteManifest deletes by digest.
func (c cleaner) DeleteManifest(ctx context.Context, d digest.Digest) error {
	return c.Repository.DeleteManifest(ctx, d)
}

// wanted is the outline of a plan that could not be made, for its receipt.
func wanted(w publication) plan.Plan {
	p := plan.Plan{Verb: w.verb, Root: w.content.Root.Descriptor}
	for _, b := range append([]publish.Manifest{{Blob: w.content.Root}}, w.content.Manifests...) {
		p.Manifests = append(p.Manifests, plan.Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes})
	}
	for _, r := range w.targets {
		p.Targets = append(p.Targets, plan.Target{Reference: r.String(), Digest: w.content.Root.Digest})
	}
	return p
}

// unplanned says of each tag that it was not tried, or why it may not move.
func unplanned(w publication, err error) apply.Result {
	var res apply.Result
	for _, r := range w.targets {
		if r.Tag == "" {
			continue
		}
		t := apply.TagResult{Reference: r.WithTag(r.Tag), Digest: w.content.Root.Digest, Fate: apply.Untried}
		if found, ok := refusedTag(err, t.Reference); ok {
			t.Fate, t.Found = apply.Refused, found
		}
		res.Tags = append(res.Tags, t)
	}
	return res
}

// refusedTag finds the precondition of a tag among joined errors.
func refusedTag(err error, tag ref.Reference) (found digest.Digest, ok bool) {
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined {
		for _, e := range joined.Unwrap() {
			if found, ok = refusedTag(e, tag); ok {
				return found, true
			}
		}
		return "", false
	}
	var e *plan.PreconditionError
	if errors.As(err, &e) && e.Tag == tag {
		return e.Found, true
	}
	return "", false
}
