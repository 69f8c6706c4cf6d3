package manifold

import (
	"context"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// referrersOf reads what refers to the images of c where they come from, for
// every target that is somewhere else. The copiers make sure of it afterwards.
func (m *Manifold) referrersOf(ctx context.Context, o CreateOptions, sources []source, c publish.Content) (items []publish.Item, copiers []*copier, err error) {
	if !o.Referrers {
		return nil, nil, nil
	}
	kept := map[digest.Digest]bool{c.Root.Digest: true}
	refs, err := oci.References(c.Root)
	if err != nil {
		return nil, nil, err
	}
	for _, d := range refs {
		kept[d.Digest] = true
	}
	for _, s := range sources {
		found, err := m.referrersOfSource(ctx, o, s, kept)
		if err != nil {
			return nil, nil, at(s.location, err)
		}
		if found == nil {
			continue
		}
		items, copiers = append(items, found.items...), append(copiers, found)
	}
	return items, copiers, nil
}

// referrersOfSource is nil when there is nowhere to copy them to.
func (m *Manifold) referrersOfSource(ctx context.Context, o CreateOptions, s source, kept map[digest.Digest]bool) (*copier, error) {
	p, name, err := m.open(ctx, s.location)
	if err != nil {
		return nil, err
	}
	c := &copier{
		m: m, o: CopyOptions{Source: s.location, Referrers: true, FallbackTags: o.FallbackTags}, targets: elsewhere(o.Targets, s.location),
		from:   gatherer{place: p, name: name, known: map[digest.Digest]publish.Manifest{}},
		images: []CopiedImage{{Source: s.location.String()}},
	}
	if len(c.targets) == 0 {
		return nil, nil
	}
	for _, b := range s.manifests {
		if kept[b.Digest] {
			c.items = append(c.items, publish.Item{Content: publish.Content{Root: b.Blob}})
		}
	}
	content := len(c.items) // is published by the index, not by itself
	err = c.attach(ctx)
	c.items = c.items[content:]
	return c, err
}

// elsewhere are the targets, one per repository, that are not where a source is.
func elsewhere(targets []ref.Reference, source ref.Location) []ref.Reference {
	var out []ref.Reference
	for _, t := range targets {
		here := source.Transport == ref.Registry && source.Reference.SameRepository(t)
		if !here && !slices.Contains(out, t.Repo()) {
			out = append(out, t.Repo())
		}
	}
	return out
}

// confirm asks every target whether it lists the referrers that it was given.
func confirm(ctx context.Context, copiers []*copier) error {
	for _, c := range copiers {
		if err := c.confirmReferrers(ctx); err != nil {
			return err
		}
	}
	return nil
}
