package manifold

import (
	"context"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Referred is a manifest and what refers to it by its subject.
type Referred struct {
	Subject digest.Digest `json:"subject"`
	// Of names the subject: its platform, or "the root".
	Of        string           `json:"of"`
	Referrers []oci.Descriptor `json:"referrers"`
}

// Referrers lists what refers to what a location names, and to every manifest
// below it, in their order: one request each, besides those that read them. An
// attestation inside the index is no referrer of its own. What has none is left
// out.
func (m *Manifold) Referrers(ctx context.Context, l ref.Location) ([]Referred, error) {
	p, name, err := m.open(ctx, l)
	if err != nil {
		return nil, at(l, err)
	}
	source, ok := p.(lister)
	if !ok {
		return nil, nil
	}
	root, err := m.resolve(ctx, l)
	if err != nil {
		return nil, at(l, err)
	}
	g := gatherer{place: p, name: name, known: map[digest.Digest]publish.Manifest{}}
	manifests, names, err := g.gatherNamed(ctx, root)
	if err != nil {
		return nil, at(l, err)
	}
	all := make([]oci.Descriptor, len(manifests))
	inside := map[digest.Digest]bool{}
	for i, m := range manifests {
		all[i], inside[m.Digest] = m.Descriptor, true
	}
	found, err := list(ctx, source, all)
	if err != nil {
		return nil, at(l, err)
	}
	var out []Referred
	for i, d := range all {
		r := Referred{Subject: d.Digest, Of: names[d.Digest]}
		for _, f := range oci.Unique(found[i]) {
			if !inside[f.Digest] {
				r.Referrers = append(r.Referrers, f)
			}
		}
		if len(r.Referrers) > 0 {
			out = append(out, r)
		}
	}
	return out, nil
}
