package manifold

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// Input is a source with something said about it.
type Input struct {
	// Location is where it is. An empty one means that only the digest is known,
	// and that it is in the one repository that the command is about: that of
	// the targets, or else that of the other sources.
	Location ref.Location
	// Digest is looked at when Location is empty.
	Digest digest.Digest
	// Descriptor is what a file says about the source, nil for nothing. Its
	// media type and size must be right; its platform and annotations replace
	// those of the entry.
	Descriptor *oci.Descriptor
	// Platform is what the source is meant to be for, nil for whatever it is. Of
	// an index with several images it selects one. A config that says something
	// else is an error.
	Platform *oci.Platform
	// Annotations are set on the entry.
	Annotations map[string]string
	// Optional leaves the source out when it is not there.
	Optional bool
}

// InputError reports a source that is not what was said about it.
type InputError struct{ Source, Reason string }

func (e *InputError) Error() string { return e.Source + ": " + e.Reason }

// inputs are all sources in their order, each with a location.
func (o CreateOptions) inputs() ([]Input, error) {
	out := slices.Clone(o.Inputs)
	for _, l := range o.Sources {
		out = append(out, Input{Location: l})
	}
	if len(out) == 0 && (o.Edit == nil || o.Edit.Append || o.Edit.Replace) {
		return nil, ErrNoSources
	}
	for i := range out {
		in := &out[i]
		in.Optional = in.Optional || o.IgnoreMissing
		if in.Location != (ref.Location{}) {
			continue
		}
		repo, err := o.repository(in.Digest)
		if err != nil {
			return nil, err
		}
		in.Location.Reference = repo.WithDigest(in.Digest)
	}
	return out, nil
}

// repository is the one in which a bare digest is looked for.
func (o CreateOptions) repository(d digest.Digest) (ref.Reference, error) {
	repos := map[ref.Reference]bool{}
	for _, t := range o.Targets {
		repos[t.Repo()] = true
	}
	if len(repos) == 0 {
		for _, l := range slices.Concat(locations(o.Inputs), o.Sources) {
			if l.Transport == ref.Registry && l.Reference.Repository != "" {
				repos[l.Reference.Repo()] = true
			}
		}
	}
	if len(repos) != 1 {
		return ref.Reference{}, &InputError{Source: d.String(), Reason: fmt.Sprintf(
			"in which repository is it? %d are named here; write REPOSITORY@%s", len(repos), d)}
	}
	return slices.Collect(maps.Keys(repos))[0], nil
}

func locations(inputs []Input) []ref.Location {
	var out []ref.Location
	for _, in := range inputs {
		out = append(out, in.Location)
	}
	return out
}

// readAll reads the sources side by side. missing are optional ones that are
// not there.
func (m *Manifold) readAll(ctx context.Context, inputs []Input, only []oci.Platform) (sources []source, missing []string, err error) {
	all := make([]*source, len(inputs))
	eg, egctx := errgroup.WithContext(ctx)
	for i, in := range inputs {
		eg.Go(func() error {
			s, err := m.readInput(egctx, in, only)
			all[i] = s
			return at(in.Location, err)
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, nil, err
	}
	for i, s := range all {
		if s != nil {
			sources = append(sources, *s)
			continue
		}
		missing = append(missing, inputs[i].Location.String())
		m.o.Report.Warn(inputs[i].Location.String(), "is not there and is left out")
	}
	return sources, missing, nil
}

// readInput reads one source and what was said about it; nil when it is
// optional and not there.
func (m *Manifold) readInput(ctx context.Context, in Input, only []oci.Platform) (*source, error) {
	root, err := m.resolve(ctx, in.Location)
	if err != nil {
		if in.Optional && notThere(err) {
			return nil, nil
		}
		return nil, err
	}
	s, err := m.below(ctx, in.Location, root, only)
	if err != nil {
		return nil, err
	}
	if err := s.describe(in); err != nil {
		return nil, err
	}
	return &s, m.label(ctx, &s, in)
}

// notThere reports that what a location names does not exist.
func notThere(err error) bool {
	var tag *layout.TagError
	return absent(err) || errors.As(err, &tag) && !tag.Ambiguous
}

// describe applies a descriptor that was given with a source.
func (s *source) describe(in Input) error {
	d := in.Descriptor
	if d == nil {
		return s.annotate(in, in.Annotations)
	}
	switch {
	case d.MediaType != "" && d.MediaType != s.root.MediaType:
		return &oci.MismatchError{What: "media type", Want: d.MediaType, Got: s.root.MediaType}
	case d.Size != 0 && d.Size != s.root.Size:
		return &oci.MismatchError{What: "size", Want: fmt.Sprint(d.Size), Got: fmt.Sprint(s.root.Size)}
	}
	if d.Platform == nil && len(d.Annotations) == 0 {
		return s.annotate(in, in.Annotations)
	}
	if len(s.images) != 1 {
		return s.several(in, "a descriptor with a platform or annotations")
	}
	e := &s.images[0].Entry
	if d.Platform != nil {
		p := *d.Platform
		e.Platform, s.images[0].Artifact = &p, false
	}
	if len(d.Annotations) > 0 {
		e.Annotations = maps.Clone(d.Annotations)
	}
	s.changed = true
	return s.annotate(in, in.Annotations)
}

func (s *source) annotate(in Input, annotations map[string]string) error {
	if len(annotations) == 0 {
		return nil
	}
	if len(s.images) != 1 {
		return s.several(in, "annotations")
	}
	e := &s.images[0].Entry
	e.Annotations = maps.Clone(e.Annotations)
	if e.Annotations == nil {
		e.Annotations = map[string]string{}
	}
	maps.Copy(e.Annotations, annotations)
	s.changed = true
	return nil
}

func (s *source) several(in Input, what string) error {
	return &InputError{Source: in.Location.String(), Reason: fmt.Sprintf("is an index of %d images, %s can be given for one only", len(s.images), what)}
}

// label applies the platform that a source is meant to be for.
func (m *Manifold) label(ctx context.Context, s *source, in Input) error {
	if in.Platform == nil {
		return nil
	}
	if len(s.images) > 1 {
		images, err := filter(s.images, []oci.Platform{*in.Platform})
		s.images, s.changed = images, true
		return err
	}
	if len(s.images) == 0 {
		return index.ErrEmpty
	}
	img := &s.images[0]
	config, err := m.configOf(ctx, s, img.Entry.Digest)
	if err != nil {
		return err
	}
	if !mayBe(config, *in.Platform) {
		return &InputError{Source: in.Location.String(), Reason: fmt.Sprintf("is for %s, not for %s", oci.FormatPlatform(config), oci.FormatPlatform(*in.Platform))}
	}
	p := fill(*in.Platform, config)
	img.Entry.Platform, img.Artifact, s.changed = &p, false, true
	return nil
}

// configOf reads the platform of an image from its config, zero for what has
// none.
func (m *Manifold) configOf(ctx context.Context, s *source, d digest.Digest) (oci.Platform, error) {
	i := slices.IndexFunc(s.manifests, func(b publish.Manifest) bool { return b.Digest == d })
	if i < 0 {
		return oci.Platform{}, nil
	}
	v, err := oci.ParseManifest(s.manifests[i].Blob)
	if err != nil || !oci.IsImageConfig(v.Config.MediaType) {
		return oci.Platform{}, err
	}
	p, _, err := m.open(ctx, s.location)
	if err != nil {
		return oci.Platform{}, err
	}
	return platformOf(ctx, p, v)
}

// mayBe reports whether an image whose config says config can be labelled as
// label. A config without a variant does not contradict one: builds for arm/v6
// have left it out for years.
func mayBe(config, label oci.Platform) bool {
	if oci.IsUnknownPlatform(&config) {
		return true
	}
	c, l := oci.NormalizePlatform(config), oci.NormalizePlatform(label)
	if config.Variant == "" || label.Variant == "" {
		c.Variant, l.Variant = "", ""
	}
	return c.OS == l.OS && c.Architecture == l.Architecture && c.Variant == l.Variant &&
		(config.OSVersion == "" || label.OSVersion == "" || config.OSVersion == label.OSVersion)
}

// fill takes from the config what a label does not say.
func fill(label, config oci.Platform) oci.Platform {
	if label.Variant == "" && label.Architecture == config.Architecture {
		label.Variant = config.Variant
	}
	if label.OSVersion == "" {
		label.OSVersion = config.OSVersion
	}
	if len(label.OSFeatures) == 0 {
		label.OSFeatures = slices.Clone(config.OSFeatures)
	}
	return label
}
