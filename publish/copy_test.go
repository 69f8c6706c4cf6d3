package publish

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

func planCopy(t *testing.T, repo fakeRepository, gone digest.Digest, items ...Item) (plan.Plan, error) {
	t.Helper()
	repo.asked = &asked{}
	return MakeAll(t.Context(), items, Options{
		Verb: "test", Open: func(ref.Reference) Prober { return repo },
		Absent: func(err error) bool { return errors.Is(err, errAbsent) },
		Stat:   func(_ context.Context, _ ref.Reference, d oci.Descriptor) (bool, error) { return d.Digest != gone, nil },
	})
}

func to(t *testing.T, s string) []ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return []ref.Reference{r}
}

// TestMissingBlobBelowARightTagIsSent: with Stat, nothing that is there is
// trusted, and only what is missing is planned.
func TestMissingBlobBelowARightTagIsSent(t *testing.T) {
	c, a, b := twoPlatforms(t, "src.example/app")
	there := fakeRepository{
		tags:      map[string]oci.Blob{"1": c.Root},
		manifests: map[digest.Digest]oci.Blob{a.Digest: a, b.Digest: b},
	}
	item := Item{Content: c, Targets: to(t, "dst.example/app:1")}
	p, err := planCopy(t, there, "", item)
	if err != nil || len(p.Steps) != 0 {
		t.Errorf("whole: %v, steps %v", err, ops(p, nil))
	}
	blobs, err := BlobsOf(a)
	if err != nil {
		t.Fatal(err)
	}
	p, err = planCopy(t, there, blobs[1].Digest, item)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"dst.example/app copy blob blob", "dst.example/app put manifest a", "dst.example/app read back a"}
	if diff := cmp.Diff(want, ops(p, map[digest.Digest]string{a.Digest: "a", b.Digest: "b", c.Root.Digest: "root"})); diff != "" {
		t.Error(diff)
	}
}

// TestOneTagForTwoRootsIsRefused: which of them it would name depends on chance.
func TestOneTagForTwoRootsIsRefused(t *testing.T) {
	c, a, _ := twoPlatforms(t, "src.example/app")
	single := Content{Root: a, Manifests: []Manifest{{Blob: a, At: []string{"src.example/app"}}}}
	_, err := planCopy(t, fakeRepository{}, "",
		Item{Content: c, Targets: to(t, "dst.example/app:1")}, Item{Content: single, Targets: to(t, "dst.example/app:1")})
	var refused *TargetError
	if !errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	p, err := planCopy(t, fakeRepository{}, "",
		Item{Content: c, Targets: to(t, "dst.example/app:1")}, Item{Content: single, Targets: to(t, "dst.example/app:amd64")})
	if err != nil || len(p.TagMoves()) != 2 {
		t.Errorf("two tags: %v, %v", err, ops(p, nil))
	}
}

// TestHeldRootIsOnlyTagged: nothing below it is known, nothing is looked at.
func TestHeldRootIsOnlyTagged(t *testing.T) {
	c, _, _ := twoPlatforms(t)
	here := []string{"dst.example/app"}
	held := Item{Held: true, Targets: to(t, "dst.example/app:new"), Content: Content{Root: c.Root, Manifests: []Manifest{{Blob: c.Root, At: here, Seen: here}}}}
	p, err := planCopy(t, fakeRepository{}, "", held)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"dst.example/app move tag new", "dst.example/app confirm tag new"}, ops(p, nil)); diff != "" {
		t.Error(diff)
	}
}
