package publish

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/opencontainers/go-digest"
)

// somePlans are one of each kind: what is sent, what is there, what is both.
func somePlans(t *testing.T) map[string]plan.Plan {
	c, a, b := twoPlatforms(t, "src.test/app")
	here, _, _ := twoPlatforms(t, "r.test/app")
	whole := map[digest.Digest]oci.Blob{a.Digest: a, b.Digest: b}
	held := Content{Root: c.Root, Manifests: []Manifest{{Blob: c.Root, At: []string{"r.test/app"}, Seen: []string{"r.test/app"}}}}
	out := map[string]plan.Plan{}
	for name, tt := range map[string]struct {
		content Content
		repo    fakeRepository
		targets []string
	}{
		"sent":        {c, fakeRepository{}, []string{"r.test/app:1"}},
		"made there":  {here, fakeRepository{}, []string{"r.test/app:1", "r.test/app:2"}},
		"two hosts":   {c, fakeRepository{}, []string{"r.test/app:1", "s.test/app:1"}},
		"a right tag": {here, fakeRepository{tags: map[string]oci.Blob{"1": c.Root}, manifests: whole}, []string{"r.test/app:1", "r.test/app:2"}},
		"by digest":   {c, fakeRepository{}, []string{"r.test/app"}},
		"repaired":    {c, fakeRepository{tags: map[string]oci.Blob{"1": c.Root}}, []string{"r.test/app:1"}},
		"all there":   {c, fakeRepository{tags: map[string]oci.Blob{"1": c.Root}, manifests: whole}, []string{"r.test/app:1"}},
		"moved":       {c, fakeRepository{tags: map[string]oci.Blob{"1": attestation(a)}}, []string{"r.test/app:1"}},
	} {
		p, _, err := makePlan(t, tt.content, tt.repo, tt.targets...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[name] = p
	}
	p, err := planCopy(t, fakeRepository{}, "", Item{Held: true, Targets: to(t, "r.test/app:new"), Content: held},
		Item{Content: Content{Root: a, Manifests: []Manifest{{Blob: a, At: []string{"src.test/app"}}}}, Targets: to(t, "r.test/app")})
	if err != nil {
		t.Fatal(err)
	}
	out["only tagged"] = p
	return out
}

// TestNoStepOfAPlanCanBeLeftOut, nor done somewhere else or with something else.
// What is not sent is not taken by the registry, for a blob, and not read back,
// for a manifest, before a tag moves.
func TestNoStepOfAPlanCanBeLeftOut(t *testing.T) {
	for name, p := range somePlans(t) {
		for i, s := range p.Steps {
			without := p
			without.Steps = nil
			for k, other := range p.Steps {
				other.After = slices.DeleteFunc(slices.Clone(other.After), func(id string) bool { return id == s.ID })
				if k != i {
					without.Steps = append(without.Steps, other)
				}
			}
			if s.Op != plan.CopyBlob && s.Op != plan.PutManifest && without.Validate() == nil {
				t.Errorf("%s: can be run without %s", name, s.ID)
			}
			changed := p
			changed.Steps = slices.Clone(p.Steps)
			for what, change := range map[string]func(*plan.Step){
				"elsewhere":          func(s *plan.Step) { s.Target = "x.test/app" },
				"for something else": func(s *plan.Step) { s.Digest = digest.FromString("else") },
				"in another size":    func(s *plan.Step) { s.Size++ },
				"as another type":    func(s *plan.Step) { s.MediaType = "text/html" },
				"for another tag":    func(s *plan.Step) { s.Tag += "x" },
			} {
				changed.Steps[i] = s
				change(&changed.Steps[i])
				if changed.Validate() == nil {
					t.Errorf("%s: can do %s %s", name, s.ID, what)
				}
			}
		}
		p.Held = nil
		if err := p.Validate(); (err == nil) != (name == "sent" || name == "two hosts" || name == "by digest" || name == "moved") {
			t.Errorf("%s: without what is held: %v", name, err)
		}
	}
}

// TestRightTagIsConfirmedWhereOthersMove: it may have moved meanwhile. Where
// nothing moves it has just been looked at.
func TestRightTagIsConfirmedWhereOthersMove(t *testing.T) {
	p := somePlans(t)["a right tag"]
	i := slices.IndexFunc(p.Steps, func(s plan.Step) bool { return s.Op == plan.ConfirmTag && s.Tag == "1" })
	if i < 0 || p.Steps[i].Previous != p.Root.Digest || len(p.TagMoves()) != 1 {
		t.Errorf("steps %v", ops(p, nil))
	}
	want := []plan.Held{{Target: "r.test/app", Tags: []string{"1"}, Manifests: p.Held[0].Manifests}}
	if diff := cmp.Diff(want, p.Held); diff != "" || len(p.Held[0].Manifests) != 3 {
		t.Errorf("%v %s", p.Held, diff)
	}
}
