package manifold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// CopyOptions say what is copied and where to.
type CopyOptions struct {
	PublishOptions
	// Source is an index, an image or an artifact, anywhere that content can be
	// read from. With AllTags it is a repository, or a layout, without a tag.
	Source ref.Location
	// Targets are repositories and layouts (oci:DIR, oci-archive:FILE), each with
	// a tag, or a repository with the digest of what is copied. A layout's path
	// is absolute. With AllTags they have neither.
	Targets []ref.Location
	// AllTags copies every tag, or those that match a pattern of Tags (as
	// [path.Match] reads it).
	AllTags bool
	Tags    []string
	// Platforms keeps only these of an index, with their attestations: what is
	// published is another index. Of an image it must be the platform.
	Platforms []oci.Platform
	// Referrers copies what refers to the index, to each child, and to those
	// again.
	Referrers bool
	// FallbackTags writes the tags that list referrers at registries without the
	// referrers API. Without it such a target is refused when there are any.
	// A layout always has them.
	FallbackTags bool
	// Cosign copies the tags sha256-HEX.sig, .att and .sbom of everything copied.
	Cosign bool
	// DryRun stops after the plan.
	DryRun bool
}

// Copied is the outcome of [Manifold.Copy].
type Copied struct {
	Plan plan.Plan
	// Receipt tells what happened; with AllTags it has no digest of its own.
	Receipt Receipt
	// Images are what was copied: one, or one per tag.
	Images []CopiedImage
}

// CopiedImage is one source that was copied.
type CopiedImage struct {
	Source    string        `json:"source"`
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType"`
	// Referrers that went along, and tags of cosign.
	Referrers []digest.Digest `json:"referrers,omitempty"`
	Cosign    []string        `json:"cosign,omitempty"`
}

// SameError reports a copy onto itself.
type SameError struct{ Location ref.Location }

func (e *SameError) Error() string { return e.Location.String() + ": is both source and destination" }

// Copy publishes what exists somewhere else, byte for byte: everything at every
// target first, then the tags. A target that has the tag already is not trusted:
// every manifest and blob below it is looked for, and what is missing is sent.
//
// At a registry that has nothing: POST and PUT per blob, or one POST where it can
// be mounted; one PUT per manifest, one GET per manifest before the tag and one
// after; one HEAD, one PUT and one GET per tag. At one that has it all: one HEAD
// per tag, manifest and blob.
//
// Errors: [*SameError]; [*IncompleteError]; [*PlatformsError]; [*ReferrersError];
// [*oci.SyntaxError]; [*PlaceError] with DryRun; those of [publish.Make] and [apply.Run]; [*registry.Error],
// [*layout.Error].
func (m *Manifold) Copy(ctx context.Context, o CopyOptions) (Copied, error) {
	started := time.Now()
	targets, err := copyTargets(o)
	if err != nil {
		return Copied{}, err
	}
	if !o.DryRun {
		m.announce([]ref.Location{o.Source}, targets)
	}
	c := &copier{m: m, o: o, targets: targets}
	c.look(ctx)
	if err := c.read(ctx); err != nil {
		return Copied{}, at(o.Source, err)
	}
	out := Copied{Images: c.images}
	if err := c.attach(ctx); err != nil {
		return out, err
	}
	out.Images = c.images
	out.Plan, err = publish.MakeAll(ctx, c.items, c.planning())
	if err == nil && o.DryRun {
		err = keepable(out.Plan)
	}
	if err != nil || o.DryRun {
		return out, err
	}
	out.Receipt, err = m.carryOut(ctx, out.Plan, m.applying(nil), started)
	for _, img := range c.images {
		for _, p := range out.Receipt.Platforms {
			out.Receipt.source(p.Digest, img.Source)
		}
	}
	if len(c.images) != 1 {
		out.Receipt.Digest, out.Receipt.MediaType, out.Receipt.Size, out.Receipt.Platforms = "", "", 0, nil
	}
	if err == nil {
		err = c.confirmReferrers(ctx)
	}
	return out, err
}

func (c *copier) planning() publish.Options {
	o := c.m.planning("copy")
	o.Open = func(r ref.Reference) publish.Prober { return foreseen{c.m.target(r), r, c.early} }
	o.Expect, o.NoClobber = c.o.Expect, c.o.NoClobber
	o.Stat = func(ctx context.Context, r ref.Reference, d oci.Descriptor) (bool, error) {
		return c.m.target(r).StatBlob(ctx, d)
	}
	return o
}

// copyTargets checks the targets before anything is read.
func copyTargets(o CopyOptions) ([]ref.Reference, error) {
	if len(o.Targets) == 0 {
		return nil, errors.New("no destination specified")
	}
	var out []ref.Reference
	for _, t := range o.Targets {
		if err := checkCopyTarget(o, t); err != nil {
			return nil, err
		}
		out = append(out, t.AsReference())
	}
	return out, nil
}

func checkCopyTarget(o CopyOptions, t ref.Location) error {
	fail := func(reason string) error { return fmt.Errorf("%s: %s", t, reason) }
	named := t.Tag != "" || t.Reference.Identifier() != ""
	switch {
	case samePlace(o, t):
		return &SameError{Location: t}
	case o.AllTags && named:
		return fail("tags are copied with their names: the destination has none")
	case !o.AllTags && !named:
		return fail("the destination has no tag")
	}
	return checkLayoutTarget(t, fail)
}

func checkLayoutTarget(t ref.Location, fail func(string) error) error {
	switch {
	case t.Transport == ref.Registry:
		return nil
	case t.Transport != ref.OCILayout && t.Transport != ref.OCIArchive:
		return fail("cannot be written, only read")
	case !filepath.IsAbs(t.Path):
		return fail("the path is not absolute")
	case digest.Digest(t.Tag).Validate() == nil:
		return fail("an image in a layout is named by a tag")
	}
	return nil
}

// samePlace reports a destination that is the source. An archive is written
// whole, so that any tag of it is the same.
func samePlace(o CopyOptions, t ref.Location) bool {
	s := o.Source
	if s.Transport != t.Transport {
		return false
	}
	if s.Transport == ref.Registry {
		from, to := s.Reference, t.Reference
		if !o.AllTags {
			from = from.OrLatest()
		}
		return from.SameRepository(to) && (o.AllTags || from.Identifier() == to.Identifier() || from.Digest == "" && from.Tag == to.Tag)
	}
	if !samePath(s.Path, t.Path) {
		return false
	}
	return o.AllTags || s.Tag == t.Tag || s.Transport == ref.OCIArchive
}

func samePath(a, b string) bool {
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(infoA, infoB)
	}
	return filepath.Clean(a) == filepath.Clean(b)
}

// copier collects what a copy has to publish.
type copier struct {
	m       *Manifold
	o       CopyOptions
	targets []ref.Reference
	from    gatherer

	items  []publish.Item
	images []CopiedImage
	// listed are the referrers by what they refer to, subjects in order.
	listed   map[digest.Digest][]oci.Descriptor
	subjects []oci.Descriptor
	// early are tags of targets that are being asked for already.
	early map[ref.Reference]func() (oci.Descriptor, error)
	// withAPI are the targets where the API has to list them afterwards.
	withAPI []ref.Reference
}

// read makes the items of what was asked for.
func (c *copier) read(ctx context.Context) error {
	p, name, err := c.m.open(ctx, c.o.Source)
	if err != nil {
		return err
	}
	c.from = gatherer{place: p, name: name, known: map[digest.Digest]publish.Manifest{}, checkBlobs: c.o.Source.Transport != ref.Registry}
	if c.o.AllTags {
		return c.readTags(ctx)
	}
	root, err := c.m.resolve(ctx, c.o.Source)
	if err != nil {
		return err
	}
	content, err := c.content(ctx, root)
	if err != nil {
		return err
	}
	c.add(c.o.Source, content, c.targets)
	return nil
}

// content reads a root whole, or what the platforms asked for leave of it.
func (c *copier) content(ctx context.Context, root oci.Blob) (publish.Content, error) {
	if len(c.o.Platforms) > 0 {
		return c.filtered(ctx, root)
	}
	manifests, err := c.from.gather(ctx, root)
	return publish.Content{Root: root, Manifests: manifests}, err
}

// add notes an item; contents that are the same are one, under all their names.
func (c *copier) add(source ref.Location, content publish.Content, targets []ref.Reference) {
	c.images = append(c.images, CopiedImage{Source: source.String(), Digest: content.Root.Digest, MediaType: content.Root.MediaType})
	i := slices.IndexFunc(c.items, func(item publish.Item) bool { return item.Root.Digest == content.Root.Digest })
	if i >= 0 {
		c.items[i].Targets = append(c.items[i].Targets, targets...)
		return
	}
	c.items = append(c.items, publish.Item{Content: content, Targets: targets})
}

// tagged are all targets with one tag.
func (c *copier) tagged(tag string) []ref.Reference {
	out := make([]ref.Reference, len(c.targets))
	for i, t := range c.targets {
		out[i] = t.WithTag(tag)
	}
	return out
}
