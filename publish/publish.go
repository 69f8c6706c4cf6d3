// Package publish decides what has to be written so that one index, whole, is
// what every tag names, and returns it as a plan.
//
// [Make] asks each target what its tags name, then orders the least work:
// blobs, children before parents, an attestation after its subject, the index
// by digest, the read back, the tags last and one after another, and at the end
// the tags and children once more. It never writes: its port [Prober] only
// reads.
//
// It refuses content with holes (an index whose children were not all given), a
// root that is not an index, targets without a repository, and a tag named
// twice.
//
// Read publish.go first; steps.go writes the steps, tags.go looks at tags.
package publish

import (
	"context"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Prober reads what one repository holds.
type Prober interface {
	// Resolve returns the descriptor of a tag or digest.
	Resolve(ctx context.Context, identifier string) (oci.Descriptor, error)
	// FetchManifest returns a manifest by digest, checked.
	FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error)
}

// Content is what is to be published: an index and everything it reaches.
type Content struct {
	Root oci.Blob
	// Manifests are all manifests below Root, in any order.
	Manifests []Manifest
}

// Manifest is one manifest of the content and where it can be had.
type Manifest struct {
	oci.Blob
	// At are the places that hold the manifest and all it points at:
	// repositories with host, or locations as package ref writes them. Empty
	// for a manifest that was made in this run.
	At []string
	// BlobsAt are the places that hold its blobs when these differ from At.
	BlobsAt []string
	// Held are blobs, by repository with host, that this run has put there or
	// found there: they need no step.
	Held map[string][]digest.Digest
	// Seen are the places of At where this run has read these very bytes, so
	// that they need not be read back there before the tags move.
	Seen []string
}

// Options say where to and how.
type Options struct {
	// Verb is the command that asks, for the plan.
	Verb string
	// Targets are the references to publish under. One without a tag is
	// published by digest only. One with a digest must be the root's.
	Targets []ref.Reference
	// Open returns the prober of a repository.
	Open func(ref.Reference) Prober
	// Absent reports whether an error of a prober means that the thing is not
	// there; every other error stops the planning.
	Absent func(error) bool
	Report report.Sink
}

// HoleError reports content that refers to a manifest that was not given.
type HoleError struct{ Parent, Missing digest.Digest }

func (e *HoleError) Error() string {
	return fmt.Sprintf("%s: refers to %s, which is not there", e.Parent, e.Missing)
}

// TargetError reports a target that cannot be published to.
type TargetError struct {
	Target ref.Reference
	Reason string
}

func (e *TargetError) Error() string { return fmt.Sprintf("%s: %s", e.Target, e.Reason) }

// Make returns the plan. Errors are [*HoleError], [*TargetError],
// [*oci.SyntaxError], or what a prober answered.
func Make(ctx context.Context, c Content, o Options) (plan.Plan, error) {
	if !oci.IsIndex(c.Root.MediaType) {
		return plan.Plan{}, fmt.Errorf("%s: %q is not an index", c.Root.Digest, c.Root.MediaType)
	}
	ordered, err := order(c)
	if err != nil {
		return plan.Plan{}, err
	}
	targets, err := group(c.Root.Digest, o.Targets)
	if err != nil {
		return plan.Plan{}, err
	}
	for i := range targets {
		if err := probe(ctx, &targets[i], c, o); err != nil {
			return plan.Plan{}, err
		}
	}
	w := writer{root: c.Root, ordered: ordered, targets: targets}
	return w.plan(o.Verb)
}

// target is one repository, what its tags name, and which manifests it holds.
type target struct {
	repo ref.Reference
	tags []tag
	// present are manifests found by asking, because a tag is right already.
	present map[digest.Digest]bool
}

// tag is one tag of a target.
type tag struct {
	name string
	// previous is what it names now; bytes are nil when it names nothing.
	previous oci.Blob
}

// group collects the references by repository, in the order given.
func group(root digest.Digest, refs []ref.Reference) ([]target, error) {
	var out []target
	if len(refs) == 0 {
		return nil, fmt.Errorf("%s: no target to publish to", root)
	}
	for _, r := range refs {
		if r.Host == "" || r.Repository == "" {
			return nil, &TargetError{Target: r, Reason: "no repository"}
		}
		if r.Digest != "" && r.Digest != root {
			return nil, &TargetError{Target: r, Reason: fmt.Sprintf("the index has digest %s", root)}
		}
		i := slices.IndexFunc(out, func(t target) bool { return t.repo.SameRepository(r) })
		if i < 0 {
			out = append(out, target{repo: r.Repo()})
			i = len(out) - 1
		}
		if r.Tag != "" && !slices.ContainsFunc(out[i].tags, func(t tag) bool { return t.name == r.Tag }) {
			out[i].tags = append(out[i].tags, tag{name: r.Tag})
		}
	}
	return out, nil
}

// order sorts the manifests so that each comes after all that it refers to and
// after its subject, if that is among them; otherwise as listed from the root.
func order(c Content) ([]Manifest, error) {
	byDigest := make(map[digest.Digest]Manifest, len(c.Manifests))
	for _, m := range c.Manifests {
		byDigest[m.Digest] = m
	}
	var out []Manifest
	done := map[digest.Digest]bool{}
	var visit func(b oci.Blob, depth int) error
	visit = func(b oci.Blob, depth int) error {
		if depth > oci.MaxDepth {
			return &oci.DepthError{Digest: b.Digest}
		}
		deps, err := dependencies(b)
		if err != nil {
			return fmt.Errorf("%s: %w", b.Digest, err)
		}
		for _, d := range deps.required {
			if _, ok := byDigest[d]; !ok {
				return &HoleError{Parent: b.Digest, Missing: d}
			}
		}
		for _, d := range append(deps.optional, deps.required...) {
			m, ok := byDigest[d]
			if !ok || done[d] {
				continue
			}
			done[d] = true
			if err := visit(m.Blob, depth+1); err != nil {
				return err
			}
			out = append(out, m)
		}
		return nil
	}
	return out, visit(c.Root, 0)
}

// deps are the manifests that must be at a registry before another one:
// children (required) and the subject (optional, it may be elsewhere).
type deps struct{ required, optional []digest.Digest }

func dependencies(b oci.Blob) (deps, error) {
	if oci.IsIndex(b.MediaType) {
		idx, err := oci.ParseIndex(b)
		if err != nil {
			return deps{}, err
		}
		return indexDependencies(idx), nil
	}
	m, err := oci.ParseManifest(b)
	if err != nil {
		return deps{}, err
	}
	if m.Subject != nil {
		return deps{optional: []digest.Digest{m.Subject.Digest}}, nil
	}
	return deps{}, nil
}

// indexDependencies lists images before attestations, whatever order the index
// has, so that an attestation is never sent before what it speaks of.
func indexDependencies(idx oci.Index) deps {
	var images, attestations []digest.Digest
	for _, e := range idx.Manifests {
		switch _, attests := oci.IsAttestation(e.Descriptor); {
		case !oci.IsManifest(e.MediaType):
		case attests:
			attestations = append(attestations, e.Digest)
		default:
			images = append(images, e.Digest)
		}
	}
	d := deps{required: append(images, attestations...)}
	if idx.Subject != nil {
		d.optional = []digest.Digest{idx.Subject.Digest}
	}
	return d
}
