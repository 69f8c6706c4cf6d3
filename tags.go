package manifold

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Tags lists the tags of a repository or layout, sorted, or those that match one
// of the patterns (as [path.Match] reads them). The list is whole or there is an
// error; a repository without tags has none. A pattern that cannot be read is a
// [*PatternError].
func (m *Manifold) Tags(ctx context.Context, l ref.Location, patterns ...string) ([]string, error) {
	if _, err := matches(patterns, ""); err != nil {
		return nil, err
	}
	all, err := m.allTags(ctx, l)
	if err != nil {
		return nil, at(l, err)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(tag string) bool {
		ok, err := matches(patterns, tag)
		return !ok || err != nil
	}), nil
}

// PatternError reports a pattern that [path.Match] cannot read.
type PatternError struct{ Pattern string }

func (e *PatternError) Error() string {
	return fmt.Sprintf("pattern %q: a bracket is not closed, or nothing follows a backslash", e.Pattern)
}

func (m *Manifold) allTags(ctx context.Context, l ref.Location) ([]string, error) {
	var out []string
	if l.Transport == ref.Registry {
		for tag, err := range m.reg.Repository(l.Reference).Tags(ctx) {
			if err != nil {
				return nil, err
			}
			out = append(out, tag)
		}
		return out, nil
	}
	p, err := m.layout(ctx, l)
	if err != nil {
		return nil, err
	}
	listing, ok := p.(interface {
		Images(ctx context.Context) ([]oci.Entry, error)
	})
	if !ok {
		return nil, fmt.Errorf("%s: its tags cannot be listed", l.Transport)
	}
	entries, err := listing.Images(ctx)
	for _, e := range entries {
		out = append(out, tagsOf(e)...)
	}
	return out, err
}

// tagsOf are the tags of an entry of a layout: the full name that engines and
// BuildKit write beside a tag is none.
func tagsOf(e oci.Entry) []string {
	if tag := e.Annotations[ocispec.AnnotationRefName]; tag != "" {
		return []string{tag}
	}
	return layout.Tags(e)
}

// TagOptions say what gets which names.
type TagOptions struct {
	PublishOptions
	// Source is what is tagged.
	Source ref.Location
	// Targets are tags at the same place.
	Targets []ref.Location
}

// ElsewhereError reports a tag that is wanted at another place than its content.
type ElsewhereError struct{ Source, Target ref.Location }

func (e *ElsewhereError) Error() string {
	return fmt.Sprintf("%s: is another place than %s", e.Target, e.Source)
}

// Tag gives content that is there more names, each by one PUT: one GET of the
// source, then per tag a HEAD, a GET of what it names if it names something
// else, the PUT, and a GET to confirm it. What is below the source is not looked
// at. Errors: [*ElsewhereError], and those of [publish.Make] and [apply.Run].
func (m *Manifold) Tag(ctx context.Context, o TagOptions) (Receipt, error) {
	started := time.Now()
	var targets []ref.Reference
	for _, t := range o.Targets {
		if !sameStore(o.Source, t) {
			return Receipt{}, &ElsewhereError{Source: o.Source, Target: t}
		}
		targets = append(targets, t.AsReference())
	}
	m.announce(nil, targets)
	root, err := m.resolveHere(ctx, o.Source)
	if err != nil {
		return Receipt{}, at(o.Source, err)
	}
	here := []string{targets[0].Name()}
	content := publish.Content{Root: root, Manifests: []publish.Manifest{{Blob: root, At: here, Seen: here}}}
	planning := m.planning("tag")
	planning.Expect, planning.NoClobber = o.Expect, o.NoClobber
	p, err := publish.MakeAll(ctx, []publish.Item{{Content: content, Targets: targets, Held: true}}, planning)
	if err != nil {
		return Receipt{}, err
	}
	return m.carryOut(ctx, p, m.applying(nil), started)
}

// resolveHere reads what a location names from the place itself: a mirror may be
// behind, or have what its host has not.
func (m *Manifold) resolveHere(ctx context.Context, l ref.Location) (oci.Blob, error) {
	if l.Transport != ref.Registry {
		return m.resolve(ctx, l)
	}
	r := l.Reference.OrLatest()
	return m.reg.Repository(r).Manifest(ctx, r.Identifier())
}

func sameStore(a, b ref.Location) bool {
	if a.Transport != b.Transport || a.Transport == ref.OCIArchive {
		return false
	}
	if a.Transport == ref.Registry {
		return a.Reference.SameRepository(b.Reference)
	}
	return samePath(a.Path, b.Path)
}

// Deleted is a tag that was deleted.
type Deleted struct {
	Reference string        `json:"reference"`
	Digest    digest.Digest `json:"digest"`
	// Gone says that what it named is not there any more either: some registries
	// remove content with its last tag.
	Gone bool `json:"gone,omitempty"`
}

// DeleteTag deletes one tag, and never what it names: a HEAD of the tag, the
// DELETE, and a HEAD of the tag and of the digest to see what came of it. Where
// a registry cannot delete a tag alone the error is a [*registry.Error] for which
// [registry.Unsupported] holds, and nothing was deleted.
func (m *Manifold) DeleteTag(ctx context.Context, l ref.Location) (Deleted, error) {
	r := l.AsReference()
	if r.Tag == "" || r.Digest != "" || digest.Digest(r.Tag).Validate() == nil {
		return Deleted{}, fmt.Errorf("%s: is not a tag", l)
	}
	store := m.target(r)
	d, err := store.Resolve(ctx, r.Tag)
	if err != nil {
		return Deleted{}, err
	}
	out := Deleted{Reference: r.String(), Digest: d.Digest}
	if err := store.DeleteTag(ctx, r.Tag); err != nil {
		return out, err
	}
	if still, err := store.Resolve(ctx, r.Tag); err == nil {
		return out, fmt.Errorf("%s: was deleted and still names %s", r, still.Digest)
	} else if !absent(err) {
		return out, err
	}
	_, err = store.Resolve(ctx, d.Digest.String())
	if err != nil && !absent(err) {
		return out, err
	}
	out.Gone = err != nil
	return out, nil
}
