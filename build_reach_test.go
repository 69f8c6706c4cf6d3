package manifold_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// busyNode builds until somebody ends it.
type busyNode struct{ build.Node }

func (busyNode) Name() string     { return "busy" }
func (busyNode) Endpoint() string { return "tcp://busy" }

func (busyNode) Declared() []oci.Platform {
	return []oci.Platform{{OS: "linux", Architecture: "amd64"}}
}

func (n busyNode) Platforms(context.Context) ([]oci.Platform, error) { return n.Declared(), nil }

func (busyNode) Build(ctx context.Context, _ build.Request) ([]build.Image, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// TestBuildEndsWhereItCannotBePublished: a login that is missing and a registry
// that is down end a build that would last.
func TestBuildEndsWhereItCannotBePublished(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("user", "secret"))
	down, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := down.Addr().String()
	if err := down.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []ref.Reference{reference(t, r.Reference("team/app", "1")), reference(t, nobody+"/team/app:1"), reference(t, nobody+"/team/app")} {
		_, err := manifold.New(manifold.Options{}).Build(t.Context(), manifold.BuildOptions{
			Nodes: []build.Node{busyNode{}}, Platforms: busyNode{}.Declared(), Targets: []ref.Reference{target},
		})
		answered, ok := err.(*registry.Error)
		if !ok || answered.Status != 0 && !registry.Denied(err) {
			t.Errorf("%s: %v", target, err)
		}
	}
}

// TestReachAsksOncePerRepository, and is content with a tag that is not there.
func TestReachAsksOncePerRepository(t *testing.T) {
	r := registrytest.Distribution(t)
	m := manifold.New(manifold.Options{})
	refs := []ref.Reference{reference(t, r.Reference("a", "1")), reference(t, r.Reference("a", "2")), reference(t, r.Host+"/b")}
	if err := m.Reach(t.Context(), refs); err != nil {
		t.Fatal(err)
	}
	if n := r.Count(registrytest.Filter{}); n != 2 || r.Count(registrytest.Filter{Method: "HEAD"}) != 2 {
		t.Errorf("%d requests\n%s", n, r.Transcript())
	}
}

// TestReachIsContentWithAnswers: a registry that asks for patience, or that gives
// something odd for the tag, is there; a build takes long enough for that to pass.
func TestReachIsContentWithAnswers(t *testing.T) {
	odd := http.Header{"Content-Type": {oci.MediaTypeManifest}, "Docker-Content-Digest": {"sha256:" + strings.Repeat("0", 64)}}
	for name, faults := range map[string][]registrytest.Fault{
		"a day of patience": {{Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"86400"}}}},
		"other content": {
			{Method: http.MethodHead, Path: "/manifests/1$", Status: http.StatusOK},
			{Method: http.MethodGet, Path: "/manifests/1$", Status: http.StatusOK, Header: odd, Body: `{"schemaVersion":2}`},
		},
		"no manifest": {{Path: "/manifests/1$", Times: 2, Status: http.StatusOK, Body: "<html>"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			for _, f := range faults {
				r.Fault(f)
			}
			if err := manifold.New(manifold.Options{}).Reach(t.Context(), []ref.Reference{reference(t, r.Reference("a", "1"))}); err != nil {
				t.Errorf("%T: %v", errors.Unwrap(err), err)
			}
		})
	}
}
