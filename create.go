package manifold

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"golang.org/x/sync/errgroup"
)

// CreateOptions say what an index is made of and where it is published.
type CreateOptions struct {
	PublishOptions
	// Sources are images and indexes, in a registry or in a layout. Indexes are
	// flattened with their attestations.
	Sources []ref.Location
	// Targets are the references to publish under; they may be on several
	// hosts. Without any, DryRun must be set.
	Targets []ref.Reference
	// Platforms keeps only these, with their attestations; empty keeps all. A
	// platform that no source has is an error.
	Platforms []oci.Platform
	// MediaType of the index; empty keeps that of a single index source, and
	// otherwise follows the children.
	MediaType string
	// Annotations of the index.
	Annotations map[string]string
	// DescriptorAnnotations are set on the entries of images.
	DescriptorAnnotations []DescriptorAnnotation
	// DryRun makes the index and, with Targets, the plan, and writes nothing.
	DryRun bool
}

// DescriptorAnnotation is an annotation of the index entry of one platform, or
// of every image when Platform is nil.
type DescriptorAnnotation struct {
	Platform   *oci.Platform
	Key, Value string
}

// Created is the outcome of [Manifold.Create] and [Manifold.Build].
type Created struct {
	Index   oci.Blob
	Plan    plan.Plan
	Receipt Receipt
}

// PlatformsError reports platforms that were asked for and that no source has.
type PlatformsError struct{ Missing, Have []string }

func (e *PlatformsError) Error() string {
	return fmt.Sprintf("%s: no source has this platform, they have %s", strings.Join(e.Missing, ", "), strings.Join(e.Have, ", "))
}

// Create makes one index of existing images and publishes it. Children keep
// their bytes; those of another repository or host are mounted or copied first.
// Each source tag is resolved once.
//
// Errors: [*oci.SyntaxError] for a source that is not read, with its name;
// [*index.DuplicateError]; [*PlatformsError]; those of [publish.Make] and
// [apply.Run]; [*registry.Error].
func (m *Manifold) Create(ctx context.Context, o CreateOptions) (Created, error) {
	if len(o.Sources) == 0 {
		return Created{}, errors.New("no sources specified")
	}
	if !o.DryRun {
		m.announce(o.Sources, o.Targets)
	}
	sources := make([]source, len(o.Sources))
	eg, egctx := errgroup.WithContext(ctx)
	for i, l := range o.Sources {
		eg.Go(func() (err error) {
			sources[i], err = m.read(egctx, l)
			return at(l, err)
		})
	}
	if err := eg.Wait(); err != nil {
		return Created{}, err
	}
	content, err := combine(sources, o)
	if err != nil {
		return Created{}, err
	}
	made := Created{Index: content.Root}
	if len(o.Targets) == 0 {
		return made, nil
	}
	made.Plan, made.Receipt, err = m.run(ctx, publication{
		PublishOptions: o.PublishOptions, verb: "create", content: content, targets: o.Targets, dry: o.DryRun,
	})
	for _, s := range sources {
		for _, img := range s.images {
			made.Receipt.source(img.Entry.Digest, s.location.String())
		}
	}
	return made, err
}

// source is one source, read whole: its images and all their manifests.
type source struct {
	location  ref.Location
	root      oci.Blob
	images    []index.Image
	manifests []publish.Manifest
}

// read resolves a location and fetches every manifest below it.
func (m *Manifold) read(ctx context.Context, l ref.Location) (source, error) {
	p, name, err := m.open(ctx, l)
	if err != nil {
		return source{}, err
	}
	root, err := m.resolve(ctx, l)
	if err != nil {
		return source{}, err
	}
	s := source{location: l, root: root}
	r := reader{place: p, name: name}
	if !oci.IsIndex(root.MediaType) {
		s.images = []index.Image{{Entry: oci.Entry{Descriptor: root.Descriptor}, Source: l.String()}}
		r.keep(root)
		return s, r.finish(ctx, &s)
	}
	var unbound []oci.Entry
	s.images, unbound, err = index.Expand(ctx, p, root, l.String())
	if err != nil {
		return s, err
	}
	for _, e := range unbound {
		m.o.Report.Warn(l.String(), fmt.Sprintf("attestation %s speaks of an image that is not there, it is left out", e.Digest))
	}
	if err := r.fetch(ctx, s.images); err != nil {
		return s, err
	}
	return s, r.finish(ctx, &s)
}

// reader collects manifests from one place.
type reader struct {
	place     place
	name      string // of the place, in plans
	manifests []publish.Manifest
}

func (r *reader) keep(b oci.Blob) {
	r.manifests = append(r.manifests, publish.Manifest{Blob: b, At: []string{r.name}, Seen: []string{r.name}})
}

// fetch reads the manifests of images and attestations side by side and keeps
// them in the order listed, each once.
func (r *reader) fetch(ctx context.Context, images []index.Image) error {
	var all []oci.Descriptor
	for _, img := range images {
		all = append(all, img.Entry.Descriptor)
		for _, a := range img.Attestations {
			all = append(all, a.Descriptor)
		}
	}
	all = slices.DeleteFunc(oci.Unique(all), func(d oci.Descriptor) bool { return !oci.IsManifest(d.MediaType) })
	blobs := make([]oci.Blob, len(all))
	eg, ctx := errgroup.WithContext(ctx)
	for i, d := range all {
		eg.Go(func() (err error) {
			blobs[i], err = r.place.FetchManifest(ctx, d)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for _, b := range blobs {
		r.keep(b)
	}
	return nil
}

// finish gives images without a platform the one of their config, and marks
// what is no image that runs.
func (r *reader) finish(ctx context.Context, s *source) error {
	s.manifests = r.manifests
	eg, ctx := errgroup.WithContext(ctx)
	for i := range s.images {
		eg.Go(func() error { return r.label(ctx, &s.images[i]) })
	}
	return eg.Wait()
}

func (r *reader) label(ctx context.Context, img *index.Image) error {
	if img.Artifact || !oci.IsUnknownPlatform(img.Entry.Platform) {
		return nil
	}
	i := slices.IndexFunc(r.manifests, func(m publish.Manifest) bool { return m.Digest == img.Entry.Digest })
	if i < 0 {
		return nil
	}
	v, err := oci.ParseManifest(r.manifests[i].Blob)
	if err != nil {
		return fmt.Errorf("%s: %w", img.Entry.Digest, err)
	}
	if !oci.IsImageConfig(v.Config.MediaType) {
		img.Artifact = true
		return nil
	}
	p, err := platformOf(ctx, r.place, v)
	if err != nil {
		return err
	}
	if !oci.IsUnknownPlatform(&p) {
		img.Entry = index.WithPlatform(img.Entry, p)
	}
	return nil
}

// combine makes the index. A single index of which nothing changes keeps its
// bytes, and so its digest.
func combine(sources []source, o CreateOptions) (publish.Content, error) {
	var images []index.Image
	var manifests []publish.Manifest
	for _, s := range sources {
		images = append(images, s.images...)
		manifests = merge(manifests, s.manifests)
	}
	if unchanged(sources, o) {
		return publish.Content{Root: sources[0].root, Manifests: manifests}, nil
	}
	images, err := filter(images, o.Platforms)
	if err != nil {
		return publish.Content{}, err
	}
	return assemble(images, manifests, index.Options{
		MediaType: o.MediaType, Annotations: o.Annotations, DescriptorAnnotations: descriptorAnnotations(o.DescriptorAnnotations),
	})
}

func unchanged(sources []source, o CreateOptions) bool {
	if len(sources) != 1 || !oci.IsIndex(sources[0].root.MediaType) {
		return false
	}
	root := sources[0].root
	return len(o.Annotations) == 0 && len(o.DescriptorAnnotations) == 0 && len(o.Platforms) == 0 &&
		(o.MediaType == "" || o.MediaType == root.MediaType) && labelledAndFlat(root)
}

// labelledAndFlat reports that an index needs no repair on the way: no nested
// index, no attestation without its image, every image with its platform.
func labelledAndFlat(root oci.Blob) bool {
	images, unbound, err := index.Flatten(root, "")
	return err == nil && len(unbound) == 0 && !slices.ContainsFunc(images, func(i index.Image) bool {
		return oci.IsIndex(i.Entry.MediaType) || !i.Artifact && oci.IsUnknownPlatform(i.Entry.Platform)
	})
}

// merge adds manifests, joining the places of those that come twice.
func merge(all, more []publish.Manifest) []publish.Manifest {
	for _, m := range more {
		i := slices.IndexFunc(all, func(a publish.Manifest) bool { return a.Digest == m.Digest })
		if i < 0 {
			all = append(all, m)
			continue
		}
		all[i].At = append(all[i].At, m.At...)
		all[i].Seen = append(all[i].Seen, m.Seen...)
	}
	return all
}

// filter keeps the images of the platforms asked for.
func filter(images []index.Image, platforms []oci.Platform) ([]index.Image, error) {
	if len(platforms) == 0 {
		return images, nil
	}
	var out []index.Image
	var have []string
	met := make([]bool, len(platforms))
	for _, img := range images {
		if img.Entry.Platform == nil {
			continue
		}
		have = append(have, oci.FormatPlatform(*img.Entry.Platform))
		kept := false
		for i, p := range platforms {
			if oci.SatisfiesPlatform(p, *img.Entry.Platform) {
				met[i], kept = true, true
			}
		}
		if kept {
			out = append(out, img)
		}
	}
	var missing []string
	for i, p := range platforms {
		if !met[i] {
			missing = append(missing, oci.FormatPlatform(p))
		}
	}
	if len(missing) > 0 {
		return nil, &PlatformsError{Missing: missing, Have: have}
	}
	return out, nil
}

// descriptorAnnotations returns what to set on the entry of an image.
func descriptorAnnotations(all []DescriptorAnnotation) func(oci.Entry) map[string]string {
	if len(all) == 0 {
		return nil
	}
	return func(e oci.Entry) map[string]string {
		out := map[string]string{}
		for _, a := range all {
			if a.Platform == nil || e.Platform != nil && oci.SatisfiesPlatform(*a.Platform, *e.Platform) {
				out[a.Key] = a.Value
			}
		}
		return out
	}
}
