package manifold

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
)

// CreateOptions say what an index is made of and where it is published.
type CreateOptions struct {
	PublishOptions
	// Inputs are sources with something said about them. They come before
	// Sources.
	Inputs []Input
	// Sources are images and indexes, in a registry, a layout, an archive of
	// docker save or a Docker Engine. Indexes are flattened with their
	// attestations.
	Sources []ref.Location
	// Targets are the references to publish under; they may be on several
	// hosts. Without any, DryRun must be set.
	Targets []ref.Reference
	// Edit changes the index that the first target names, and publishes the
	// result under every target. Nil makes a new index.
	Edit *Edit
	// Platforms keeps only these, with their attestations; empty keeps all. A
	// platform that no source has is an error.
	Platforms []oci.Platform
	// Expected are all platforms that the result must have, no more and no
	// less; empty is not looked at.
	Expected []oci.Platform
	// IgnoreMissing leaves out sources that are not there. A source that could
	// not be asked about is an error all the same, and so is one that is there
	// in part.
	IgnoreMissing bool
	// Plain publishes a single image source as it is, without an index. Any
	// other source is not affected.
	Plain bool
	// MediaType of the index; empty keeps that of a single index source or of
	// the one that is edited, and otherwise follows the children.
	MediaType string
	// Annotations of the index.
	Annotations map[string]string
	// DescriptorAnnotations are set on the entries of images.
	DescriptorAnnotations []DescriptorAnnotation
	// ManifestAnnotations are set in the manifests of images. These become other
	// manifests, with other digests, and lose their attestations, which speak of
	// what they were.
	ManifestAnnotations []DescriptorAnnotation
	// Labels change the platforms in the entries of images.
	Labels []Label
	// Referrers copies what refers to the images to targets that are not where
	// they come from, as signatures and SBOMs. What refers to an index does not
	// go along: the result is another one.
	Referrers bool
	// FallbackTags writes the tags that list referrers at registries without the
	// referrers API. Without it such a target is refused when there are any.
	FallbackTags bool
	// DryRun makes the index and, with Targets, the plan, and writes nothing.
	DryRun bool
}

// DescriptorAnnotation is an annotation for the image of one platform, or for
// every image when Platform is nil.
type DescriptorAnnotation struct {
	Platform   *oci.Platform
	Key, Value string
}

// Label is a change of the platform that an index gives to an image. The image
// and its config are not touched.
type Label struct {
	// Of names the entries.
	Of index.Selector
	// Change returns the new platform.
	Change func(oci.Platform) oci.Platform
}

// Created is the outcome of [Manifold.Create] and [Manifold.Build].
type Created struct {
	Index   oci.Blob
	Plan    plan.Plan
	Receipt Receipt
	// Missing are sources that were left out because they are not there.
	Missing []string
}

// PlatformsError reports platforms that were asked for and that no source has.
type PlatformsError struct{ Missing, Have []string }

func (e *PlatformsError) Error() string {
	return fmt.Sprintf("platform %s: no source has it, they have %s", strings.Join(e.Missing, ", "), strings.Join(e.Have, ", "))
}

// ExpectedError reports a result whose platforms are not those of
// [CreateOptions.Expected].
type ExpectedError struct{ Missing, Extra []string }

func (e *ExpectedError) Error() string {
	var parts []string
	if len(e.Missing) > 0 {
		parts = append(parts, "not there: "+strings.Join(e.Missing, ", "))
	}
	if len(e.Extra) > 0 {
		parts = append(parts, "not expected: "+strings.Join(e.Extra, ", "))
	}
	return "platforms of the index: " + strings.Join(parts, "; ")
}

// ErrNoSources reports that there is nothing to make an index of: no source was
// given, or none of them is there.
var ErrNoSources = errors.New("no sources")

// Create makes one index of existing images and publishes it, or edits one that
// is published. Children keep their bytes; those of another repository or host
// are mounted or copied first. Each source tag is resolved once.
//
// An edit that meets another writer is done again on what that one has
// published, so that nothing is lost; see [Edit].
//
// Errors: [*oci.SyntaxError] for a source that is not read, with its name;
// [ErrNoSources], [*InputError], [*PlatformsError], [*ExpectedError], [*PlaceError] with DryRun,
// [*BaseError], [*EditConflictError]; those of package index; those of
// [publish.Make] and [apply.Run]; [*registry.Error]; those of package layout.
func (m *Manifold) Create(ctx context.Context, o CreateOptions) (Created, error) {
	inputs, err := o.inputs()
	if err != nil {
		return Created{}, err
	}
	if !o.DryRun {
		m.announce(locations(inputs), o.Targets)
	}
	sources, missing, err := m.readAll(ctx, inputs, o.Platforms)
	if err != nil {
		return Created{}, err
	}
	if len(sources) == 0 && len(inputs) > 0 {
		return Created{Missing: missing}, fmt.Errorf("%w: none of %s is there", ErrNoSources, strings.Join(missing, ", "))
	}
	var made Created
	if o.Edit != nil {
		made, err = m.edit(ctx, o, sources)
	} else {
		made, err = m.create(ctx, o, sources)
	}
	made.Missing = missing
	for _, name := range missing {
		made.Receipt.Warnings = append(made.Receipt.Warnings, name+": is not there and was left out")
	}
	for _, s := range sources {
		for _, img := range s.images {
			made.Receipt.source(img.Entry.Digest, s.location.String())
		}
	}
	return made, err
}

// create makes a new index.
func (m *Manifold) create(ctx context.Context, o CreateOptions, sources []source) (Created, error) {
	c, err := m.content(sources, nil, o)
	if err != nil {
		return Created{}, err
	}
	made := Created{Index: c.Root}
	if len(o.Targets) == 0 {
		return made, nil
	}
	w := publication{PublishOptions: o.PublishOptions, verb: "create", content: c, targets: o.Targets, dry: o.DryRun}
	made.Plan, made.Receipt, err = m.runWithReferrers(ctx, o, sources, w)
	return made, err
}

// runWithReferrers publishes, and what refers to the images with it.
func (m *Manifold) runWithReferrers(ctx context.Context, o CreateOptions, sources []source, w publication) (plan.Plan, Receipt, error) {
	items, copiers, err := m.referrersOf(ctx, o, sources, w.content)
	if err != nil {
		return plan.Plan{}, Receipt{}, err
	}
	w.more = items
	p, r, err := m.run(ctx, w)
	if err == nil && !w.dry {
		err = confirm(ctx, copiers)
	}
	return p, r, err
}
