package dockermanifest

import (
	"context"
	"errors"
	"slices"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"golang.org/x/sync/errgroup"
)

// Create makes a list of sources, or with amend adds them to one, and returns
// the list's full name. A source that is in the list already is read anew; what
// was annotated of it stays. When one source cannot be read nothing is saved.
//
// Errors: [*NameError], [*ExistsError], [*AbsentError], [*NoImageError], what
// the registries answer.
func (l *Lists) Create(ctx context.Context, list string, sources []string, amend bool) (string, error) {
	name, err := parse(list)
	if err != nil {
		return "", named("error parsing name for manifest list "+redact.Word(list), err)
	}
	_, there, err := l.Store.find(name)
	if err != nil {
		return "", err
	}
	if there && !amend {
		return "", &ExistsError{List: name.String()}
	}
	refs := make([]ref.Reference, len(sources))
	for i, s := range sources {
		if refs[i], err = parse(s); err != nil {
			return "", err
		}
	}
	return name.String(), l.add(ctx, name, refs)
}

// named puts what is being read in front of the reason, as Docker does.
func named(what string, err error) error {
	var bad *NameError
	if errors.As(err, &bad) {
		bad.What = what
	}
	return err
}

// add reads all sources, then saves all of them.
func (l *Lists) add(ctx context.Context, list ref.Reference, sources []ref.Reference) error {
	read := make([][]Entry, len(sources))
	eg, egctx := errgroup.WithContext(ctx)
	for i, s := range sources {
		eg.Go(func() (err error) {
			read[i], err = l.source(egctx, s)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for i, s := range sources {
		if err := l.replace(ctx, list, s, read[i]); err != nil {
			return err
		}
	}
	return nil
}

// source reads the images that a source names.
func (l *Lists) source(ctx context.Context, s ref.Reference) ([]Entry, error) {
	root, err := l.resolve(ctx, s)
	if err != nil {
		return nil, err
	}
	if oci.IsIndex(root.MediaType) {
		return l.index(ctx, s, root)
	}
	p, err := l.platform(ctx, s, root)
	if err != nil {
		return nil, err
	}
	return []Entry{newEntry(s, root, &p)}, nil
}

// index reads the images of an index with their attestations. One image is named
// as its source is, so that it is found again by that name; several are named by
// their digests.
func (l *Lists) index(ctx context.Context, s ref.Reference, root oci.Blob) ([]Entry, error) {
	fetch := func(ctx context.Context, d oci.Descriptor) (oci.Blob, error) { return l.child(ctx, s, d) }
	images, unbound, err := index.Expand(ctx, oci.FetcherFunc(fetch), root, s.String())
	if err != nil {
		return nil, err
	}
	for _, e := range unbound {
		l.Report.Warn(s.String(), "attestation "+e.Digest.String()+" speaks of an image that is not there, it is left out")
	}
	images = slices.DeleteFunc(images, func(i index.Image) bool {
		if i.Artifact {
			l.Report.Warn(s.String(), i.Entry.Digest.String()+" is not an image, it is left out")
		}
		return i.Artifact
	})
	if len(images) == 0 {
		return nil, &NoImageError{Ref: s.String()}
	}
	entries := make([]Entry, len(images))
	eg, egctx := errgroup.WithContext(ctx)
	for i, img := range images {
		eg.Go(func() (err error) {
			entries[i], err = l.image(egctx, s, img)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	if len(entries) == 1 {
		entries[0].Ref = s
	}
	return entries, nil
}

// image reads one image of an index.
func (l *Lists) image(ctx context.Context, s ref.Reference, img index.Image) (Entry, error) {
	b, err := l.child(ctx, s, img.Entry.Descriptor)
	if err != nil {
		return Entry{}, err
	}
	p := img.Entry.Platform
	if oci.IsUnknownPlatform(p) {
		own, err := l.platform(ctx, s, b)
		if err != nil {
			return Entry{}, err
		}
		p = &own
	}
	e := newEntry(s.WithDigest(b.Digest), b, p)
	e.Source = s
	for _, a := range img.Attestations {
		b, err := l.child(ctx, s, a.Descriptor)
		if err != nil {
			return Entry{}, err
		}
		e.Attestations = append(e.Attestations, Attestation{Descriptor: a.Descriptor, Raw: b.Bytes})
	}
	return e, nil
}

// replace puts the entries of a source in the place of those that the list has
// of it.
func (l *Lists) replace(ctx context.Context, list, source ref.Reference, entries []Entry) error {
	had, err := l.had(list, source)
	if err != nil {
		return err
	}
	for i := range entries {
		if err := l.keepAnnotations(ctx, had, &entries[i], len(entries) == 1); err != nil {
			return err
		}
	}
	if err := l.Store.Save(list, entries...); err != nil {
		return err
	}
	gone := slices.DeleteFunc(had, func(h Entry) bool {
		return slices.ContainsFunc(entries, func(e Entry) bool { return e.Ref == h.Ref })
	})
	return l.Store.Forget(list, gone...)
}

// had returns what a list has of a source; no list has nothing.
func (l *Lists) had(list, source ref.Reference) ([]Entry, error) {
	_, there, err := l.Store.find(list)
	if err != nil || !there {
		return nil, err
	}
	entries, err := l.Store.Entries(list)
	if err != nil {
		return nil, err
	}
	return slices.Clone(of(entries, source)), nil
}

// keepAnnotations carries over what a user has annotated. The same image keeps
// its platform as it stands. Where a source names another image now, what
// counts is how the platform of the old one differed from its config.
func (l *Lists) keepAnnotations(ctx context.Context, had []Entry, e *Entry, only bool) error {
	if i := slices.IndexFunc(had, func(h Entry) bool { return h.Descriptor.Digest == e.Descriptor.Digest }); i >= 0 {
		if had[i].Descriptor.Platform != nil {
			e.Descriptor.Platform = had[i].Descriptor.Platform
		}
		return nil
	}
	if !only || len(had) != 1 || had[0].Descriptor.Platform == nil {
		return nil
	}
	was, err := l.original(ctx, had[0])
	if err != nil {
		return err
	}
	if was == nil {
		l.Report.Warn(e.Ref.String(), "names another image now and the old one is gone: what was annotated of it is not kept")
		return nil
	}
	p := annotated(*was, *had[0].Descriptor.Platform, *e.Descriptor.Platform)
	e.Descriptor.Platform = &p
	return nil
}

// original is the platform that an entry's config says, nil when it cannot be
// had any more.
func (l *Lists) original(ctx context.Context, e Entry) (*oci.Platform, error) {
	b := oci.Blob{Descriptor: e.Descriptor, Bytes: e.Raw}
	if b.Bytes == nil {
		b.Bytes = e.View
	}
	p, err := l.platform(ctx, e.Ref, b)
	if registry.Absent(err) {
		return nil, nil
	}
	return &p, err
}

// annotated returns now with the fields in which set differs from was.
func annotated(was, set, now oci.Platform) oci.Platform {
	if set.OS != was.OS {
		now.OS = set.OS
	}
	if set.Architecture != was.Architecture {
		now.Architecture = set.Architecture
	}
	if set.Variant != was.Variant {
		now.Variant = set.Variant
	}
	if set.OSVersion != was.OSVersion {
		now.OSVersion = set.OSVersion
	}
	if !slices.Equal(set.OSFeatures, was.OSFeatures) {
		now.OSFeatures = set.OSFeatures
	}
	return now
}
