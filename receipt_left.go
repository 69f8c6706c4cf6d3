package manifold

import (
	"context"
	"slices"
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// lookTime bounds how long a build that failed looks at what tags name.
const lookTime = 10 * time.Second

// pushed names what nodes have pushed of a build that failed, less what the tags
// of its targets lead to: a cached build pushes what the last one has published.
// Other tags are not looked at.
func (m *Manifold) pushed(ctx context.Context, images []build.Image, targets []ref.Reference) []string {
	var out []string
	for _, img := range images {
		if !img.Pushed || img.Manifest.Digest == "" {
			continue
		}
		for _, repo := range repositories(targets) {
			out = append(out, repo+"@"+img.Manifest.Digest.String())
		}
	}
	if len(out) == 0 {
		return nil
	}
	used := m.tagged(ctx, targets)
	return slices.DeleteFunc(out, func(name string) bool { return used[name] })
}

// tagged is what the tags of targets name and list now, "repository@digest", by
// one GET each. A tag that cannot be read leads nowhere. It goes on when ctx has
// ended.
func (m *Manifold) tagged(ctx context.Context, targets []ref.Reference) map[string]bool {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), lookTime)
	defer stop()
	out := map[string]bool{}
	for _, r := range targets {
		if r.Tag == "" {
			continue
		}
		if b, err := m.target(r).Manifest(ctx, r.Tag); err == nil {
			leads(out, r.Repo(), b)
		}
	}
	return out
}

// leads notes a manifest and what it points at.
func leads(out map[string]bool, repo ref.Reference, b oci.Blob) {
	out[repo.WithDigest(b.Digest).String()] = true
	refs, err := oci.References(b)
	if err != nil {
		return
	}
	for _, d := range refs {
		out[repo.WithDigest(d.Digest).String()] = true
	}
}

// left lists what stays of a run that failed, less what a tag leads to that has
// moved all the same.
func left(p plan.Plan, res apply.Result) []LeftReceipt {
	used := map[string]bool{}
	for _, t := range res.Tags {
		if t.Fate == apply.Moved || t.Fate == apply.Unchanged {
			leadsAll(used, t.Reference.Repo(), p, t.Digest)
		}
	}
	var out []LeftReceipt
	for _, l := range res.Left {
		if name := l.Repository.WithDigest(l.Digest).String(); !used[name] {
			out = append(out, LeftReceipt{Reference: name, Reason: l.Reason})
		}
	}
	return out
}

// leadsAll notes a manifest of a plan and all below it.
func leadsAll(out map[string]bool, repo ref.Reference, p plan.Plan, d digest.Digest) {
	name := repo.WithDigest(d).String()
	b, ok := p.Manifest(d)
	if out[name] || !ok {
		return
	}
	out[name] = true
	refs, err := oci.References(b)
	if err != nil {
		return
	}
	for _, r := range refs {
		leadsAll(out, repo, p, r.Digest)
	}
}
