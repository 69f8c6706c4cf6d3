package manifold

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/clock"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Edit is a change of the index that a tag names. What the index says about
// itself is kept, unknown members too; an image takes its attestations with it.
// Platforms, Labels, Annotations and the other options of [CreateOptions] hold
// for the result; a result without images is an error.
//
// Edits that race lose nothing. The tag is read, changed and, just before it is
// written, read again; when another writer was there, the change is made again
// on what that one published. No registry writes a tag on condition, so the tag
// is read twice more after the write, with a pause between: a writer that had
// looked before and wrote after is seen, and merged with. See
// docs/decisions/0008.
type Edit struct {
	// Append adds the sources. One for a platform that is there is an
	// [*index.DuplicateError].
	Append bool
	// Replace puts the sources in the place of the images for the same
	// platforms. One for a platform that is not there is added when Append is
	// set too, and is an [*index.AbsentError] otherwise.
	Replace bool
	// Remove takes entries out.
	Remove []index.Selector
	// CreateMissing takes a tag that is not there for an empty index.
	CreateMissing bool
}

// BaseError reports an index that cannot be edited.
type BaseError struct {
	Tag    ref.Reference
	Reason string
}

func (e *BaseError) Error() string { return fmt.Sprintf("%s: %s", e.Tag, e.Reason) }

// EditConflictError reports two edits that cannot both be: another writer has
// replaced the same image by another one meanwhile.
type EditConflictError struct {
	Tag      ref.Reference
	Platform string
	// Found is the image of the other writer, Ours the one of this edit.
	Found, Ours digest.Digest
}

func (e *EditConflictError) Error() string {
	return fmt.Sprintf("%s: another writer has replaced %s by %s, this run by %s", e.Tag, e.Platform, e.Found, e.Ours)
}

// apply changes the images of an index.
func (e *Edit) apply(images, sources []index.Image) ([]index.Image, error) {
	images, err := index.Remove(images, e.Remove...)
	switch {
	case err != nil:
		return nil, err
	case e.Replace:
		return index.Replace(images, sources, e.Append)
	}
	return append(slices.Clone(images), sources...), nil
}

// Limits of an edit that meets other writers.
const (
	maxRounds = 40
	maxPause  = 2 * time.Second
	// An edit waits before it looks once more, when all seems done: as long as
	// its last round took, within these. Who is slow has slow company.
	leastSettled = 300 * time.Millisecond
	mostSettled  = 2 * time.Second
)

// editor is one edit, over all its rounds.
type editor struct {
	*Manifold
	o       CreateOptions
	sources []source
	// first are the images that the edit found for the platforms it replaces.
	first map[string]digest.Digest
	round int
}

// edit changes what the first target names until the change is there to stay.
func (m *Manifold) edit(ctx context.Context, o CreateOptions, sources []source) (Created, error) {
	if len(o.Targets) == 0 || o.Targets[0].Tag == "" {
		return Created{}, errors.New("an edit needs a tag to edit")
	}
	e := &editor{Manifold: m, o: o, sources: sources}
	for {
		made, err := e.once(ctx)
		again := err != nil && e.met(err)
		if err == nil && !o.DryRun && !made.Receipt.Unchanged {
			again, err = e.overtaken(ctx, made)
		}
		if err != nil && !again {
			return made, err
		}
		if !again {
			return made, nil
		}
		if e.round++; e.round == maxRounds {
			return made, errors.Join(fmt.Errorf("%s: %d times another writer was faster", o.Targets[0], maxRounds), err)
		}
		m.o.Report.Warn(o.Targets[0].String(), "another writer has moved the tag, this change is made again on what it names now")
		if err := clock.Sleep(ctx, rand.N(min(maxPause, 20*time.Millisecond<<min(e.round, 10)))); err != nil {
			return made, err
		}
	}
}

// met reports that a round failed because another writer was there, and not
// because of what the caller expects of a tag.
func (e *editor) met(err error) bool {
	var race *apply.RaceError
	var moved *plan.PreconditionError
	switch {
	case errors.As(err, &race):
		return true
	case errors.As(err, &moved):
		return !e.expects(moved.Tag)
	}
	return false
}

// expects reports that the caller has a precondition of its own on a tag.
func (e *editor) expects(tag ref.Reference) bool {
	return e.o.NoClobber || slices.ContainsFunc(e.o.Expect, func(x Expectation) bool { return x.Tag == tag })
}

// once reads, changes and publishes.
func (e *editor) once(ctx context.Context) (Created, error) {
	base, err := e.base(ctx, e.o.Targets[0])
	if err != nil {
		return Created{}, err
	}
	c, err := e.contentOn(base)
	if err != nil {
		return Created{}, err
	}
	made := Created{Index: c.Root}
	w := publication{PublishOptions: e.o.PublishOptions, verb: "create", content: c, targets: e.o.Targets, removed: e.removed(base), dry: e.o.DryRun}
	if w.Expect, err = e.preconditions(ctx, base.root.Digest); err != nil {
		return made, err
	}
	made.Plan, made.Receipt, err = e.runWithReferrers(ctx, e.o, append([]source{base}, e.sources...), w)
	return made, err
}

// removed are the platforms of base that the edit takes away.
func (e *editor) removed(base source) []string {
	var out []string
	for _, s := range e.o.Edit.Remove {
		left, err := index.Remove(base.images, s)
		if err != nil {
			continue // a round before has removed it
		}
		for _, img := range base.images {
			stays := slices.ContainsFunc(left, func(l index.Image) bool { return l.Entry.Digest == img.Entry.Digest })
			if img.Entry.Platform != nil && !stays {
				out = append(out, oci.PlatformKey(*img.Entry.Platform))
			}
		}
	}
	return out
}

// base reads what is edited, from the host itself: a mirror may be behind.
func (e *editor) base(ctx context.Context, tag ref.Reference) (source, error) {
	l := ref.Location{Reference: tag.WithTag(tag.Tag)}
	repo := e.reg.Repository(tag)
	root, err := repo.Manifest(ctx, tag.Tag)
	switch {
	case err != nil && absent(err) && e.o.Edit.CreateMissing:
		return source{location: l}, nil
	case err != nil && absent(err):
		return source{}, &BaseError{Tag: tag, Reason: "there is no such tag to edit"}
	case err != nil:
		return source{}, err
	}
	s, err := e.belowAt(ctx, reader{place: repo, name: tag.Name(), only: e.o.Platforms}, l, root)
	return s, at(l, err)
}

// contentOn makes the changed index. What an earlier round has done already is
// no mistake when it is found done.
func (e *editor) contentOn(base source) (publish.Content, error) {
	if err := e.conflict(base); err != nil {
		return publish.Content{}, err
	}
	o := e.o
	if e.round > 0 {
		edit := *o.Edit
		edit.Remove = slices.DeleteFunc(slices.Clone(edit.Remove), func(s index.Selector) bool {
			_, err := index.Remove(base.images, s)
			return err != nil
		})
		o.Edit = &edit
		o.Labels = slices.DeleteFunc(slices.Clone(o.Labels), func(l Label) bool {
			_, err := index.Relabel(base.images, l.Of, l.Change)
			return err != nil && !e.brings(l.Of)
		})
	}
	return e.content(e.sources, &base, o)
}

// brings reports that a source of the edit is what a selector names.
func (e *editor) brings(s index.Selector) bool {
	return slices.ContainsFunc(e.sources, func(src source) bool {
		_, err := index.Remove(src.images, s)
		return err == nil
	})
}

// conflict notices that an image to be replaced is neither the one that the
// first round found nor the one of this edit.
func (e *editor) conflict(base source) error {
	if !e.o.Edit.Replace {
		return nil
	}
	now := map[string]digest.Digest{}
	for _, img := range base.images {
		if img.Entry.Platform != nil {
			now[oci.PlatformKey(*img.Entry.Platform)] = img.Entry.Digest
		}
	}
	if e.first == nil {
		e.first = now
		return nil
	}
	for _, s := range e.sources {
		for _, img := range s.images {
			if img.Entry.Platform == nil {
				continue
			}
			key := oci.PlatformKey(*img.Entry.Platform)
			if found := now[key]; found != "" && found != e.first[key] && found != img.Entry.Digest {
				return &EditConflictError{Tag: e.o.Targets[0], Platform: oci.FormatPlatform(*img.Entry.Platform), Found: found, Ours: img.Entry.Digest}
			}
		}
	}
	return nil
}

// preconditions are that every tag still names what it names now, the first one
// what was read.
func (e *editor) preconditions(ctx context.Context, base digest.Digest) ([]Expectation, error) {
	out := slices.Clone(e.o.Expect)
	first := e.o.Targets[0].WithTag(e.o.Targets[0].Tag)
	for _, x := range e.o.Expect {
		if x.Tag == first && x.Digest != base {
			return nil, &plan.PreconditionError{Tag: first, Expected: x.Digest, Found: base}
		}
	}
	for _, t := range e.o.Targets {
		tag := t.WithTag(t.Tag)
		if t.Tag == "" || e.expects(tag) {
			continue
		}
		now := base
		if tag != first {
			d, err := e.reg.Repository(tag).Resolve(ctx, tag.Tag)
			if err != nil && !absent(err) {
				return nil, err
			}
			now = d.Digest
		}
		out = append(out, Expectation{Tag: tag, Digest: now})
	}
	return out, nil
}

// overtaken looks once more at every tag, when all seems done. A tag that
// another writer has moved on, with this change in it, is right.
func (e *editor) overtaken(ctx context.Context, made Created) (bool, error) {
	took := time.Duration(made.Receipt.Seconds * float64(time.Second))
	if err := clock.Sleep(ctx, min(mostSettled, max(leastSettled, took))); err != nil {
		return false, err
	}
	e.round++
	defer func() { e.round-- }()
	for _, t := range e.o.Targets {
		if t.Tag == "" {
			continue
		}
		d, err := e.reg.Repository(t).Resolve(ctx, t.Tag)
		if err != nil && !absent(err) {
			return false, err
		}
		if err == nil && d.Digest == made.Index.Digest {
			continue
		}
		holds, err := e.holds(ctx, t)
		if err != nil || !holds {
			return err == nil, err
		}
	}
	return false, nil
}

// holds reports that the edit would change nothing in what a tag names.
func (e *editor) holds(ctx context.Context, t ref.Reference) (bool, error) {
	base, err := e.base(ctx, t)
	var gone *BaseError
	if errors.As(err, &gone) || err == nil && base.root.Digest == "" {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	c, err := e.contentOn(base)
	return err == nil && c.Root.Digest == base.root.Digest, err
}
