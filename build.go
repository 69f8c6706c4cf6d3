package manifold

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// BuildOptions say what is built where, and where the index goes.
type BuildOptions struct {
	PublishOptions
	// Nodes are the places to build on.
	Nodes []build.Node
	// Platforms to build; empty builds the first node's own.
	Platforms []oci.Platform
	// AllowEmulation lets a platform that no node lists be built all the same.
	AllowEmulation bool
	// KeepGoing lets the other platforms finish when one fails. Nothing is
	// tagged all the same.
	KeepGoing bool
	// Required are the platforms without which the build fails; others are left
	// out of the index when they fail. Empty: all.
	Required []oci.Platform
	// Targets are the references to publish under. Nodes push to the
	// repositories of these, so the nodes must have been made for them.
	Targets []ref.Reference
	// PlanOnly ends before the index: everything below it is sent, by digest,
	// since only this run has it; the plan for the rest is returned. The receipt
	// says what was written when that fails.
	PlanOnly bool
	// MediaType of the index; empty follows the children.
	MediaType string
	// Annotations of the index, and of the entries of images.
	Annotations           map[string]string
	DescriptorAnnotations []DescriptorAnnotation
	// Ready is called when every platform is built, before anything is
	// published; its error ends the build. It may wait. Nil: nothing is called.
	Ready func(context.Context) error
}

// Built is the outcome of [Manifold.Build].
type Built struct {
	Created
	// Images are the results of the nodes, in the order of the platforms.
	Images []build.Image
}

// checkTexts finds before anything is built what [index.Assemble] would refuse.
func (o BuildOptions) checkTexts() error {
	for _, a := range o.DescriptorAnnotations {
		if err := oci.CheckTexts(a.Key, a.Value); err != nil {
			return err
		}
	}
	return oci.CheckAnnotations(o.Annotations)
}

// Build builds every platform on a node that fits, makes one index of the
// results and publishes it. When a platform fails, no tag is created or moved.
// The registries of the targets are asked as the build starts: one that is down
// or refuses the login ends it at once, see [Manifold.Reach].
//
// Errors: those of [build.Run], among them [*build.NodeError] with node and
// platform; [*oci.TextError]; of [Manifold.Reach], [index.Assemble], [publish.Make] and [apply.Run].
func (m *Manifold) Build(ctx context.Context, o BuildOptions) (Built, error) {
	if err := o.checkTexts(); err != nil {
		return Built{}, err
	}
	m.announce(nil, o.Targets)
	images, err := m.runReachable(ctx, o)
	if err == nil && o.Ready != nil {
		err = o.Ready(ctx)
	}
	if err != nil {
		failed := Built{Images: images}
		failed.Receipt = Receipt{Verb: "build", Leftovers: m.pushed(ctx, images, o.Targets)}
		return failed, err
	}
	entries, manifests, places := results(images, o.Targets)
	content, err := assemble(entries, manifests, o.index())
	built := Built{Images: images}
	if err != nil {
		return built, err
	}
	built.Index = content.Root
	built.Plan, built.Receipt, err = m.run(ctx, publication{
		PublishOptions: o.PublishOptions, verb: "build", content: content, targets: o.Targets, places: places, dry: o.PlanOnly,
	})
	if o.PlanOnly && err == nil {
		built.Plan, built.Receipt, err = m.sendBelow(ctx, built.Plan, places)
	}
	built.Receipt.Blobs.relayed(images)
	built.Receipt.Missing = missing(o.Platforms, images)
	for _, img := range images {
		built.Receipt.built(img.Manifest.Digest, img.Node, img.Duration)
		for _, d := range img.Leftovers {
			built.Receipt.Leftovers = append(built.Receipt.Leftovers, o.Targets[0].WithDigest(d).String())
		}
	}
	return built, err
}

// Run are the options that package build gets.
func (o BuildOptions) Run(sink report.Sink) build.Options {
	return build.Options{Platforms: o.Platforms, AllowEmulation: o.AllowEmulation, KeepGoing: o.KeepGoing, Required: o.Required, Report: sink}
}

// results turns what nodes made into entries and into manifests with the places
// where these and their blobs are: the repositories that the node pushed to and
// read back from, and the node's own content for the rest.
func results(images []build.Image, targets []ref.Reference) ([]index.Image, []publish.Manifest, map[string]apply.BlobOpener) {
	repos := repositories(targets)
	places := map[string]apply.BlobOpener{}
	var entries []index.Image
	var manifests []publish.Manifest
	for i, img := range images {
		place := fmt.Sprintf("%s%d", builtPlace, i)
		if img.Content != nil {
			places[place] = img.Content
		}
		m := publish.Manifest{Blob: img.Manifest, BlobsAt: []string{place}}
		own := publish.Manifest{BlobsAt: m.BlobsAt}
		if len(img.Relayed) > 0 {
			own.BlobsAt = append(own.BlobsAt, repos[0])
			own.Held = map[string][]digest.Digest{repos[0]: digests(img.Relayed)}
			m.BlobsAt, m.Held = own.BlobsAt, own.Held
		}
		switch {
		case img.Pushed:
			m.At, m.BlobsAt, m.Seen = repos, nil, repos
		case len(img.Leftovers) > 0:
			// The image shares blobs with the one that was pushed before it.
			m.BlobsAt = append(m.BlobsAt, repos...)
		}
		manifests = append(manifests, m)
		for _, a := range img.Attestations {
			own.Blob = a
			manifests = append(manifests, own)
		}
		platform := img.Platform
		d := img.Manifest.Descriptor
		d.Platform = &platform
		entries = append(entries, index.Image{Entry: oci.Entry{Descriptor: d}, Source: img.Node, Attestations: img.AttestationEntries})
	}
	return entries, manifests, places
}

func digests(blobs []build.Relayed) []digest.Digest {
	out := make([]digest.Digest, len(blobs))
	for i, b := range blobs {
		out[i] = b.Digest
	}
	return out
}

// missing are the platforms that were left out.
func missing(platforms []oci.Platform, images []build.Image) []string {
	var out []string
	for _, p := range platforms {
		has := func(im build.Image) bool { return oci.PlatformKey(im.Platform) == oci.PlatformKey(p) }
		if !slices.ContainsFunc(images, has) {
			out = append(out, oci.FormatPlatform(p))
		}
	}
	return out
}

// repositories lists the distinct repositories of references, in order.
func repositories(refs []ref.Reference) []string {
	var out []string
	seen := map[string]bool{}
	for _, r := range refs {
		if !seen[r.Name()] {
			seen[r.Name()] = true
			out = append(out, r.Name())
		}
	}
	return out
}

// BeginBlob asks a repository for a blob that is to be streamed into it; see
// [registry.Repository.BeginBlob]. A nil function says that it is there. Nodes
// that do not push use it.
func (m *Manifold) BeginBlob(ctx context.Context, repo ref.Reference, d oci.Descriptor) (send func(context.Context, io.Reader) error, err error) {
	_, send, err = m.reg.Repository(repo).BeginBlob(ctx, d, nil)
	return send, err
}
