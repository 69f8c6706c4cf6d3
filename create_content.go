package manifold

import (
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/opencontainers/go-digest"
)

// content makes the index of sources, or of base changed by them. A single
// index of which nothing changes keeps its bytes, and so its digest.
func (m *Manifold) content(sources []source, base *source, o CreateOptions) (publish.Content, error) {
	var images []index.Image
	var manifests []publish.Manifest
	for _, s := range sources {
		images = append(images, s.images...)
		manifests = merge(manifests, s.manifests)
	}
	if base == nil && asItIs(sources, o) {
		c := publish.Content{Root: sources[0].root, Manifests: manifests}
		return c, expected(sources[0].images, o.Expected)
	}
	opts := index.Options{
		MediaType: o.MediaType, Annotations: o.Annotations, DescriptorAnnotations: descriptorAnnotations(o.DescriptorAnnotations),
	}
	if base != nil {
		var err error
		if images, err = o.Edit.apply(base.images, images); err != nil {
			return publish.Content{}, err
		}
		manifests = merge(base.manifests, manifests)
		if oci.IsIndex(base.root.MediaType) {
			opts.Base = &base.root
		}
	}
	images, manifests, err := m.shape(images, manifests, o)
	if err != nil {
		return publish.Content{}, err
	}
	c, err := assemble(images, manifests, opts)
	if err != nil && len(o.Targets) > 0 {
		return c, fmt.Errorf("%s: %w", o.Targets[0], err)
	}
	if err == nil && opts.Base != nil && index.Same(*opts.Base, c.Root) {
		c.Root = *opts.Base
	}
	return c, err
}

// shape does what is done to images wherever they come from.
func (m *Manifold) shape(images []index.Image, manifests []publish.Manifest, o CreateOptions) ([]index.Image, []publish.Manifest, error) {
	images, err := filter(images, o.Platforms)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range o.Labels {
		if images, err = index.Relabel(images, l.Of, l.Change); err != nil {
			return nil, nil, err
		}
	}
	if err := expected(images, o.Expected); err != nil {
		return nil, nil, err
	}
	if err := annotatable(images, o.DescriptorAnnotations, o.ManifestAnnotations); err != nil {
		return nil, nil, err
	}
	if len(o.ManifestAnnotations) == 0 {
		return images, manifests, nil
	}
	return m.annotateManifests(images, manifests, o.ManifestAnnotations)
}

// annotatable looks for an image for every platform that is to be annotated.
func annotatable(images []index.Image, all ...[]DescriptorAnnotation) error {
	for _, a := range slices.Concat(all...) {
		if a.Platform != nil && !slices.ContainsFunc(images, func(i index.Image) bool { return a.of(i.Entry) }) {
			return &index.AbsentError{What: oci.FormatPlatform(*a.Platform), Have: index.Platforms(images)}
		}
	}
	return nil
}

// annotateManifests makes new manifests with annotations. Attestations of what
// they were are left out: they would vouch for another digest.
func (m *Manifold) annotateManifests(images []index.Image, manifests []publish.Manifest, all []DescriptorAnnotation) ([]index.Image, []publish.Manifest, error) {
	images, manifests = slices.Clone(images), slices.Clone(manifests)
	annotations := descriptorAnnotations(all)
	for i := range images {
		img := &images[i]
		k := slices.IndexFunc(manifests, func(b publish.Manifest) bool { return b.Digest == img.Entry.Digest })
		want := annotations(img.Entry)
		if k < 0 || len(want) == 0 {
			continue
		}
		made, err := index.AnnotateManifest(manifests[k].Blob, want)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", img.Source, err)
		}
		if made.Digest == img.Entry.Digest {
			continue
		}
		m.replaced(*img, made)
		manifests = append(manifests, rewritten(manifests[k], made))
		img.Entry.Digest, img.Entry.Size, img.Entry.Data = made.Digest, made.Size, nil
		img.Attestations = nil
	}
	return images, manifests, nil
}

// replaced tells that an image has become another one.
func (m *Manifold) replaced(img index.Image, made oci.Blob) {
	text := fmt.Sprintf("annotations make another manifest of %s: %s", img.Entry.Digest, made.Digest)
	if n := len(img.Attestations); n > 0 {
		text += fmt.Sprintf("; its attestations (%d) speak of the old one and are left out", n)
	}
	m.o.Report.Warn(img.Source, text)
}

// rewritten is a manifest made of another one: its blobs are where those of the
// old one are.
func rewritten(old publish.Manifest, made oci.Blob) publish.Manifest {
	out := publish.Manifest{Blob: made, BlobsAt: old.BlobsAt, Held: map[string][]digest.Digest{}}
	if len(out.BlobsAt) == 0 {
		out.BlobsAt = old.Places()
	}
	refs, err := oci.References(old.Blob)
	for _, place := range old.At {
		for _, d := range refs {
			if err == nil {
				out.Held[place] = append(out.Held[place], d.Digest)
			}
		}
	}
	return out
}

// expected compares the platforms of images with those that must be there.
func expected(images []index.Image, want []oci.Platform) error {
	if len(want) == 0 {
		return nil
	}
	var e ExpectedError
	met := make([]bool, len(want))
	for _, img := range images {
		if oci.IsUnknownPlatform(img.Entry.Platform) {
			continue
		}
		i := slices.IndexFunc(want, func(p oci.Platform) bool { return oci.SatisfiesPlatform(p, *img.Entry.Platform) })
		if i < 0 {
			e.Extra = append(e.Extra, oci.FormatPlatform(*img.Entry.Platform))
			continue
		}
		met[i] = true
	}
	for i, p := range want {
		if !met[i] {
			e.Missing = append(e.Missing, oci.FormatPlatform(p))
		}
	}
	if len(e.Missing)+len(e.Extra) == 0 {
		return nil
	}
	return &e
}

// asItIs reports that the root of the one source is the result.
func asItIs(sources []source, o CreateOptions) bool {
	if len(sources) != 1 || sources[0].changed || o.changes() {
		return false
	}
	root := sources[0].root
	if !oci.IsIndex(root.MediaType) {
		return o.Plain && o.MediaType == ""
	}
	return (o.MediaType == "" || o.MediaType == root.MediaType) && labelledAndFlat(root)
}

// changes reports that the options ask for something else than what the sources
// are.
func (o CreateOptions) changes() bool {
	return len(o.Annotations) > 0 || len(o.DescriptorAnnotations) > 0 || len(o.ManifestAnnotations) > 0 ||
		len(o.Platforms) > 0 || len(o.Labels) > 0
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
		all[i].Mirrored = append(all[i].Mirrored, m.Mirrored...)
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

// of reports whether the annotation is for an entry.
func (a DescriptorAnnotation) of(e oci.Entry) bool {
	return a.Platform == nil || e.Platform != nil && oci.SatisfiesPlatform(*a.Platform, *e.Platform)
}

// descriptorAnnotations returns what to set on the entry of an image.
func descriptorAnnotations(all []DescriptorAnnotation) func(oci.Entry) map[string]string {
	if len(all) == 0 {
		return nil
	}
	return func(e oci.Entry) map[string]string {
		out := map[string]string{}
		for _, a := range all {
			if a.of(e) {
				out[a.Key] = a.Value
			}
		}
		return out
	}
}
