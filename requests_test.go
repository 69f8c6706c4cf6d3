package manifold_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

var eight = []string{"linux/amd64", "linux/arm64", "linux/arm/v7", "linux/arm/v6", "linux/386", "linux/ppc64le", "linux/s390x", "linux/riscv64"}

func location(t *testing.T, s string) ref.Location {
	t.Helper()
	l, err := ref.ParseLocation(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func reference(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// eightSources pushes one image per platform, each under a tag of its own.
func eightSources(t *testing.T, r *registrytest.Registry, repo string) []ref.Location {
	t.Helper()
	var out []ref.Location
	for i, platform := range eight {
		tag := fmt.Sprintf("part-%d", i)
		r.Push(repo, tag, registrytest.Image(t, platform, registrytest.ImageOptions{}))
		out = append(out, location(t, r.Reference(repo, tag)))
	}
	return out
}

// counted is the number of requests by kind, as a test states it.
type counted struct{ get, head, put, post, total int }

func count(r *registrytest.Registry) counted {
	n := func(method string) int { return r.Count(registrytest.Filter{Method: method}) }
	return counted{get: n("GET"), head: n("HEAD"), put: n("PUT"), post: n("POST"), total: r.Count(registrytest.Filter{})}
}

// TestCreateSameRepositoryRequests is the floor of an index over eight images
// that are there: a manifest and a config each, the tag's probe, the index and
// its read back, the tag and its read back, and every child once more. Other
// tools make 17 (oras) to 116 (buildx) without reading anything back.
func TestCreateSameRepositoryRequests(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		sources := eightSources(t, r, "team/app")
		r.Reset()
		m := manifold.New(manifold.Options{})
		made, err := m.Create(t.Context(), manifold.CreateOptions{Sources: sources, Targets: []ref.Reference{reference(t, r.Reference("team/app", "1"))}})
		if err != nil {
			t.Fatal(err)
		}
		want := counted{get: 8 + 8 + 1 + 1 + 8, head: 1, put: 2, total: 29}
		if r.Kind == "referrers" {
			// Its 404 to a HEAD does not look like a registry's: a GET makes sure
			// that the tag is absent and not just hidden by a proxy.
			want.get, want.total = want.get+1, want.total+1
		}
		if got := count(r); got != want {
			t.Errorf("requests %+v, want %+v\n%s", got, want, r.Transcript())
		}
		if got := r.Tags("team/app")["1"]; got != made.Index.Digest {
			t.Errorf("tag names %s, want %s", got, made.Index.Digest)
		}
		if got := made.Receipt.Requests[r.Host]; got != want.total {
			t.Errorf("receipt says %d requests", got)
		}
	})
}

// TestCreateOtherRepositoryMounts: nothing is uploaded where the registry can
// mount, and no child is read from the target before it was put there.
func TestCreateOtherRepositoryMounts(t *testing.T) {
	r := registrytest.Distribution(t)
	sources := eightSources(t, r, "team/parts")
	r.Reset()
	m := manifold.New(manifold.Options{})
	made, err := m.Create(t.Context(), manifold.CreateOptions{Sources: sources, Targets: []ref.Reference{reference(t, r.Reference("team/app", "1"))}})
	if err != nil {
		t.Fatal(err)
	}
	blobs := 16 // a config and a layer per image
	want := counted{
		post: blobs, put: 8 + 1 + 1, head: 1,
		get: 8 + 8 /* sources */ + 8 + 1 /* before the tag */ + 1 + 8, /* after it */
	}
	want.total = want.post + want.put + want.head + want.get
	if got := count(r); got != want {
		t.Errorf("requests %+v, want %+v\n%s", got, want, r.Transcript())
	}
	if b := made.Receipt.Blobs; b.Mounted != blobs || b.Uploaded != 0 || b.Bytes != 0 {
		t.Errorf("blobs %+v", b)
	}
	if got := r.Summary("team/app"); got != "index 1 manifest 8" {
		t.Errorf("stored %s", got)
	}
}

// TestCreateAgainAsksOnly: a publish that happened is found to have happened by
// reading alone.
func TestCreateAgainAsksOnly(t *testing.T) {
	r := registrytest.Distribution(t)
	sources := eightSources(t, r, "team/parts")
	o := manifold.CreateOptions{Sources: sources, Targets: []ref.Reference{reference(t, r.Reference("team/app", "1"))}}
	if _, err := manifold.New(manifold.Options{}).Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	r.Reset()
	made, err := manifold.New(manifold.Options{}).Create(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := count(r); got.put+got.post != 0 {
		t.Errorf("wrote: %s", r.Transcript())
	}
	if !made.Receipt.Unchanged || made.Receipt.Tags[0].Fate != "unchanged" {
		t.Errorf("receipt %+v", made.Receipt)
	}
}

// TestLoginCostsOneChallengeAndOneToken: eight sources read at once share both.
func TestLoginCostsOneChallengeAndOneToken(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TokenAuth(registrytest.TokenOptions{}))
	sources := eightSources(t, r, "team/app")
	r.Reset()
	m := manifold.New(manifold.Options{Registry: login(r)})
	_, err := m.Create(t.Context(), manifold.CreateOptions{Sources: sources, Targets: []ref.Reference{reference(t, r.Reference("team/app", "1"))}})
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Count(registrytest.Filter{Status: 401}); n != 1 {
		t.Errorf("%d challenges\n%s", n, r.Transcript())
	}
	if n := len(r.TokenRequests()); n != 1 {
		t.Errorf("%d token requests", n)
	}
}

func login(r *registrytest.Registry) registry.Options {
	return registry.Options{Credentials: func(context.Context, string) (registry.Credential, error) {
		return registry.Credential{Username: r.Username, Password: r.Password}, nil
	}}
}
