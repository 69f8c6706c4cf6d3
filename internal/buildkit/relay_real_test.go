package buildkit

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/moby/buildkit/client"
)

// client is the registry client as a build sees it.
type clientRegistry struct{ *registry.Client }

func newClient() clientRegistry {
	return clientRegistry{registry.NewClient(registry.Options{})}
}

func (c clientRegistry) FetchPushed(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	return c.Repository(repo).FetchManifest(ctx, d)
}

func (c clientRegistry) BeginBlob(ctx context.Context, repo ref.Reference, d oci.Descriptor) (func(context.Context, io.Reader) error, error) {
	_, send, err := c.Repository(repo).BeginBlob(ctx, d, nil)
	return send, err
}

func relayedOnce(t *testing.T, r *registrytest.Registry, im build.Image) {
	t.Helper()
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	layer := m.Layers[len(m.Layers)-1]
	if !r.HasBlob("d/app", layer.Digest) {
		t.Errorf("layer %s is not in the registry", layer.Digest)
	}
	if len(im.Relayed) != 1 || im.Relayed[0].Digest != layer.Digest || im.Relayed[0].Size != layer.Size {
		t.Errorf("relayed %+v, want %s", im.Relayed, layer.Digest)
	}
	if n := im.Content.(*Store).bytesReceived(); n > 64<<10 {
		t.Errorf("%d bytes are kept", n)
	}
}

func TestRelayStreamsLayersAndKeepsNothing(t *testing.T) {
	r := registrytest.Distribution(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64", "linux/arm64"), r.Reference("d/app", "1"))
	images := runWith(t, n, spec, BuildOptions{Registry: newClient(), Relay: true})
	for _, im := range images {
		if im.Pushed {
			t.Errorf("%s: pushed", im.Node)
		}
		checkAttestations(t, im, r.Host+"/d/app")
		relayedOnce(t, r, im)
	}
	// The layer is the same on both nodes: it goes to the registry once.
	if puts := r.Find(registrytest.Filter{Method: "PUT"}); len(puts) != 1 || puts[0].Sent < 3<<20 {
		t.Errorf("the layer went to the registry %d times\n%s", len(puts), r.Transcript())
	}
	if got := r.Summary("d/app"); strings.Contains(got, "sha256") {
		t.Errorf("manifests were written: %s", got)
	}
}

func TestRelaySkipsWhatTheRegistryHas(t *testing.T) {
	r := registrytest.Distribution(t)
	o := BuildOptions{Registry: newClient(), Relay: true}
	dir, ps := buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64")
	spec := newSpec(t, dir, ps, r.Reference("d/app", "1"))
	runWith(t, openPair(t), spec, o)
	r.Reset()
	im := runWith(t, openPair(t), spec, o)[0]
	if len(im.Relayed) != 1 || !im.Relayed[0].Present {
		t.Errorf("relayed %+v", im.Relayed)
	}
	for _, q := range r.Log() {
		if q.Sent > 0 || q.Method == "PUT" {
			t.Errorf("sent again:\n%s", r.Transcript())
		}
	}
}

func TestRelayAsksTheNodeAgainWhenAnUploadBreaks(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutRequest, After: 1 << 20, Times: 2})
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	spec.Options.NoCache = true
	var shown cachedSteps
	im := runWith(t, openPair(t), spec, BuildOptions{Registry: newClient(), Relay: true, Progress: &shown})[0]
	relayedOnce(t, r, im)
	if n := shown.n.Load(); n == 0 {
		t.Error("the node was asked to build again what it had just built")
	}
}

// cachedSteps is a progress writer that counts the steps that a cache answered.
type cachedSteps struct {
	silent
	n atomic.Int32
}

func (c *cachedSteps) Write(s *client.SolveStatus) {
	for _, v := range s.Vertexes {
		if v.Cached && strings.Contains(v.Name, "COPY") {
			c.n.Add(1)
		}
	}
}

// What a registry said to one platform takes the place of what the node made of
// that, and of nothing else.
func TestBlameIsOfEachPlatform(t *testing.T) {
	ps := parsePlatforms(t, "linux/amd64", "linux/arm64")
	p := &port{machine: &machine{name: "n"}}
	missing := p.fault(&ps[1], errors.New("COPY missing"))
	said := &registry.Error{Op: "begin upload", Status: 403}
	err := p.blamed(errors.Join(p.fault(&ps[0], errors.New("rpc error")), missing), []relayFailure{{ps[0], said}})
	var parts []string
	for _, e := range build.Parts(err) {
		parts = append(parts, e.Error())
	}
	want := []string{(&build.DestinationError{Platform: &ps[0], Err: said}).Error(), missing.Error()}
	if diff := cmp.Diff(want, parts); diff != "" {
		t.Error(diff)
	}
}

func TestRelayEndsWithWhatTheRegistrySaid(t *testing.T) {
	r := registrytest.Distribution(t)
	rule := r.Fault(registrytest.Fault{Method: "POST", Status: 403, Times: registrytest.Always,
		Body: `{"errors":[{"code":"DENIED","message":"not yours"}]}`})
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	nodes := openPair(t).Build(spec, BuildOptions{Registry: newClient(), Relay: true})
	_, err := build.Run(t.Context(), nodes, build.Options{Platforms: spec.Platforms})
	var refused *registry.Error
	var failed *build.NodeError
	var destination *build.DestinationError
	if !errors.As(err, &refused) || !refused.Has("DENIED") || errors.As(err, &failed) || !errors.As(err, &destination) || destination.Platform == nil {
		t.Errorf("got %v", err)
	}
	if rule.Hits() > 2 {
		t.Errorf("asked %d times", rule.Hits())
	}
}
