package audit

import "github.com/opencontainers/go-digest"

// Missing lists the manifests of the tree that are not there, in its order.
func (t Tree) Missing() []digest.Digest {
	var out []digest.Digest
	add := func(d digest.Digest, p Problem) {
		if p.Missing {
			out = append(out, d)
		}
	}
	for _, img := range t.Images {
		add(img.Digest, img.Problem)
		for _, a := range img.Attestations {
			add(a.Digest, a.Problem)
		}
	}
	for _, nested := range t.Indexes {
		add(nested.Digest, nested.Problem)
		out = append(out, nested.Missing()...)
	}
	for _, a := range t.Artifacts {
		add(a.Digest, a.Problem)
	}
	for _, a := range t.Attestations {
		add(a.Digest, a.Problem)
	}
	return out
}
