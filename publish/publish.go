// Package publish decides what has to be written so that one index, whole, is
// what every tag names, and returns it as a plan.
//
// [Make] publishes one index; [MakeAll] publishes any number of roots of any
// kind in one plan, as a copy does. Both ask each target what its tags name,
// then order the least work:
// blobs, children before parents, an attestation after its subject, the index
// by digest, the read back, the tags last and one after another, and at the end
// the tags and children once more. It never writes: its port [Prober] only
// reads.
//
// It refuses content with holes (an index whose children were not all given),
// targets without a repository, and one tag for two roots; [Make] also refuses a
// root that is not an index.
//
// Read publish.go first; steps.go writes the steps, tags.go looks at tags,
// preconditions.go says which of them may move.
package publish

import (
	"context"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Prober reads what one repository holds.
type Prober interface {
	// Resolve returns the descriptor of a tag or digest.
	Resolve(ctx context.Context, identifier string) (oci.Descriptor, error)
	// FetchManifest returns a manifest by digest, checked.
	FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error)
}

// Content is what is to be published: a root, in most cases an index, and
// everything it reaches.
type Content struct {
	Root oci.Blob
	// Manifests are all manifests below Root, in any order. Root may be among
	// them, to say where it can be had; that of an image manifest must be, since
	// that is where its blobs are.
	Manifests []Manifest
}

// Item is one content among others, with the references that shall name it.
type Item struct {
	Content
	Targets []ref.Reference
	// Held says that the targets have all that is below Root: nothing below it
	// was read, nothing of it is looked at, only tags are written.
	Held bool
}

// Manifest is one manifest of the content and where it can be had.
type Manifest struct {
	oci.Blob
	// At are the places that hold the manifest and all it points at:
	// repositories with host, or locations as package ref writes them. Empty
	// for a manifest that was made in this run.
	At []string
	// Mirrored are repositories of which a mirror has given the manifest. A
	// target among them is asked for it, by one HEAD, before that is relied on.
	Mirrored []string
	// BlobsAt are the places that hold its blobs when these differ from At and
	// Mirrored.
	BlobsAt []string
	// Held are blobs, by repository with host, that this run has put there or
	// found there: they need no step.
	Held map[string][]digest.Digest
	// Seen are the places of At where this run has read these very bytes, so
	// that they need not be read back there before the tags move.
	Seen []string
}

// Places are those that the manifest can be had from.
func (m Manifest) Places() []string { return slices.Concat(m.At, m.Mirrored) }

// Options say where to and how.
type Options struct {
	// Verb is the command that asks, for the plan.
	Verb string
	// Targets are the references to publish under. One without a tag is
	// published by digest only. One with a digest must be the root's.
	Targets []ref.Reference
	// Open returns the prober of a repository.
	Open func(ref.Reference) Prober
	// Absent reports whether an error of a prober means that the thing is not
	// there; every other error stops the planning.
	Absent func(error) bool
	// Stat looks for a blob in a repository. With it, manifests that a target
	// has are not taken for whole: each of their blobs is looked for, once, and
	// what is missing is sent. Nil trusts manifests that are there.
	Stat func(ctx context.Context, repo ref.Reference, d oci.Descriptor) (bool, error)
	// Expect are preconditions on tags of the targets. A tag that names
	// something else fails the planning, and is looked at once more just before
	// it moves.
	Expect []Expectation
	// NoClobber wants every tag that has no Expectation not to be there yet.
	NoClobber bool
	// Removed are platforms that somebody asked to be taken away, as
	// [oci.PlatformKey] has them: that a tag loses them needs no warning.
	Removed []string
	Report  report.Sink
}

// HoleError reports content that refers to a manifest that was not given.
type HoleError struct{ Parent, Missing digest.Digest }

func (e *HoleError) Error() string {
	return fmt.Sprintf("%s: refers to %s, which is not there", e.Parent, e.Missing)
}

// TargetError reports a target that cannot be published to.
type TargetError struct {
	Target ref.Reference
	Reason string
}

func (e *TargetError) Error() string { return fmt.Sprintf("%s: %s", e.Target, e.Reason) }

// DigestError reports a target with another digest than that of what would be
// published there.
type DigestError struct {
	Target ref.Reference
	Digest digest.Digest
}

func (e *DigestError) Error() string {
	return fmt.Sprintf("%s: what is published has digest %s", e.Target, e.Digest)
}

// Make returns the plan for one index and o.Targets. Errors are [*HoleError],
// [*TargetError], [*DigestError], [*oci.SyntaxError], [*plan.PreconditionError] for
// each tag that does not meet one, or what a prober answered.
func Make(ctx context.Context, c Content, o Options) (plan.Plan, error) {
	if !oci.IsIndex(c.Root.MediaType) {
		return plan.Plan{}, fmt.Errorf("%s: %q is not an index", c.Root.Digest, c.Root.MediaType)
	}
	return MakeAll(ctx, []Item{{Content: c, Targets: o.Targets}}, o)
}

// MakeAll returns the plan for several roots, each under its own targets;
// o.Targets is not looked at. Content goes everywhere before the first tag
// moves. The plan's root is the first one. Errors are those of [Make].
func MakeAll(ctx context.Context, items []Item, o Options) (plan.Plan, error) {
	targets, err := group(items)
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range targets {
		if err := targets[i].arrange(items); err != nil {
			return plan.Plan{}, err
		}
	}
	for i := range targets {
		if err := probe(ctx, &targets[i], o); err != nil {
			return plan.Plan{}, err
		}
	}
	if err := guard(targets, o); err != nil {
		return plan.Plan{}, err
	}
	w := writer{root: items[0].Root, targets: targets, removed: o.Removed}
	return w.plan(o.Verb, items)
}

// target is one repository, what its tags name, and which manifests it holds.
type target struct {
	repo ref.Reference
	tags []tag
	// contents are what the target is to hold, by their place among the items.
	contents []content
	// ordered are the manifests of all contents, roots among them, each once and
	// after what it needs.
	ordered []Manifest
	// present are manifests found by asking, because a tag is right already;
	// blobs are those that were looked for; broken are manifests that miss one.
	present, blobs, broken map[digest.Digest]bool
}

// tag is one tag of a target.
type tag struct {
	name string
	root oci.Blob
	// previous is what it names now; bytes are nil when it names nothing.
	previous oci.Blob
	// checked: it must still name previous just before it moves.
	checked bool
}

func (g tag) right() bool { return g.previous.Digest == g.root.Digest }

// content is one content of a target, with its manifests in order.
type content struct {
	item    int
	root    digest.Digest
	ordered []Manifest
}

// group collects the references of all items by repository, in the order given.
func group(items []Item) ([]target, error) {
	var out []target
	for i, item := range items {
		if len(item.Targets) == 0 {
			return nil, fmt.Errorf("%s: no target to publish to", item.Root.Digest)
		}
		for _, r := range item.Targets {
			if err := checkTarget(r, item.Root.Digest); err != nil {
				return nil, err
			}
			t := slices.IndexFunc(out, func(t target) bool { return t.repo.SameRepository(r) })
			if t < 0 {
				t = len(out)
				out = append(out, target{repo: r.Repo()})
			}
			if err := out[t].want(i, r, item.Root); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func checkTarget(r ref.Reference, root digest.Digest) error {
	if r.Host == "" || r.Repository == "" {
		return &TargetError{Target: r, Reason: "no repository"}
	}
	if r.Digest != "" && r.Digest != root {
		return &DigestError{Target: r, Digest: root}
	}
	return nil
}

// want notes that the target shall hold an item, under a tag if r has one.
func (t *target) want(item int, r ref.Reference, root oci.Blob) error {
	if !slices.ContainsFunc(t.contents, func(c content) bool { return c.item == item }) {
		t.contents = append(t.contents, content{item: item, root: root.Digest})
	}
	if r.Tag == "" {
		return nil
	}
	i := slices.IndexFunc(t.tags, func(g tag) bool { return g.name == r.Tag })
	if i < 0 {
		t.tags = append(t.tags, tag{name: r.Tag, root: root})
		return nil
	}
	if other := t.tags[i].root.Digest; other != root.Digest {
		return &TargetError{Target: r, Reason: fmt.Sprintf("is to name %s and %s", other, root.Digest)}
	}
	return nil
}

// arrange orders what the target is to hold.
func (t *target) arrange(items []Item) error {
	wanted := make([]Item, len(t.contents))
	for i := range t.contents {
		c := &t.contents[i]
		wanted[i] = items[c.item]
		ordered, err := order(wanted[i])
		if err != nil {
			return err
		}
		c.ordered = ordered
	}
	if len(wanted) == 1 {
		t.ordered = t.contents[0].ordered
		return nil
	}
	ordered, err := order(wanted...)
	t.ordered = ordered
	return err
}
