package manifold_test

import (
	"context"
	"net"
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
