package manifold_test

import (
	"bytes"
	"context"
	"io"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
)

// keepingNode has images built already and pushes nothing.
type keepingNode struct{ images []registrytest.Content }

func (keepingNode) Name() string     { return "keeping" }
func (keepingNode) Endpoint() string { return "tcp://keeping" }

func (n keepingNode) Declared() []oci.Platform {
	var out []oci.Platform
	for _, c := range n.images {
		out = append(out, *c.Platform)
	}
	return out
}

func (n keepingNode) Platforms(context.Context) ([]oci.Platform, error) { return n.Declared(), nil }

func (n keepingNode) Build(context.Context, build.Request) ([]build.Image, error) {
	var out []build.Image
	for _, c := range n.images {
		out = append(out, build.Image{Platform: *c.Platform, Node: "keeping", Manifest: c.Root, Config: c.Blobs[0].Digest, Content: kept(c.Blobs)})
	}
	return out, nil
}

type kept []oci.Blob

func (k kept) OpenBlob(_ context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	i := slices.IndexFunc(k, func(b oci.Blob) bool { return b.Digest == d.Digest })
	if i < 0 {
		return nil, fs.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(k[i].Bytes)), nil
}

// TestPlanOfABuildThatFailsNamesWhatItWrote: what is below the index is sent
// before the plan is there, and may fail halfway.
func TestPlanOfABuildThatFailsNamesWhatItWrote(t *testing.T) {
	r := registrytest.Distribution(t)
	first := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	second := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})
	written := make(chan struct{})
	once := sync.OnceFunc(func() { close(written) })
	r.Fault(registrytest.Fault{
		Method: http.MethodPut, Path: "/manifests/" + second.Digest().String(), Hold: written, Status: http.StatusBadRequest,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: `{"errors":[{"code":"MANIFEST_INVALID"}]}`,
	})
	m := manifold.New(manifold.Options{Report: func(e report.Event) {
		if e.Kind == report.Manifest && e.State == report.Done && e.Digest == first.Digest() {
			once()
		}
	}})
	node := keepingNode{images: []registrytest.Content{first, second}}
	built, err := m.Build(t.Context(), manifold.BuildOptions{
		Nodes: []build.Node{node}, Platforms: node.Declared(), PlanOnly: true, Targets: []ref.Reference{reference(t, r.Reference("app", "1"))},
	})
	if err == nil {
		t.Fatal("it did not fail")
	}
	name := r.Host + "/app@" + first.Digest().String()
	got := built.Receipt
	if !slices.Contains(got.Written, name) || len(got.Removed)+len(got.Left) != 1 || got.Digest != built.Index.Digest || !strings.Contains(got.Error, "MANIFEST_INVALID") {
		t.Errorf("%s is not accounted for: %+v", name, got)
	}
	if len(got.Tags) != 1 || got.Tags[0].Fate != "untried" || got.Tags[0].Digest != built.Index.Digest || got.Unchanged {
		t.Errorf("tags %+v, unchanged %t", got.Tags, got.Unchanged)
	}
}
