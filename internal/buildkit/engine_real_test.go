package buildkit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	mobyclient "github.com/moby/moby/client"
)

// startEngine runs a Docker Engine of its own and returns its endpoint.
func startEngine(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("dockerd")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs dockerd and root")
	}
	dir, err := os.MkdirTemp("", "mfd")
	if err != nil {
		t.Fatal(err)
	}
	host := "unix://" + filepath.Join(dir, "d.sock")
	cmd := exec.Command(bin, "--host", host, "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--bridge=none")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			_, _ = io.WriteString(&out, lines.Text()+"\n")
			if strings.Contains(lines.Text(), "API listen on") {
				close(ready)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
	case <-ended:
		t.Skipf("dockerd cannot run here:\n%s", out.String())
	}
	return host
}

func TestEngineWithoutAnImageStoreBuildsWithoutAName(t *testing.T) {
	t.Setenv("DOCKER_HOST", startEngine(t))
	r := registrytest.Distribution(t)
	n := openNodes(t, NodeOptions{})
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	im := runWith(t, n, spec, BuildOptions{Registry: newClient()})[0]
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil || m.MediaType != oci.MediaTypeDockerManifest || len(m.Layers) != 1 || im.Pushed {
		t.Fatalf("%v, %+v", err, m)
	}
	for _, d := range append(m.Layers, m.Config) {
		checkBlob(t, im.Content, d)
	}
	if len(r.Log()) != 0 {
		t.Errorf("the engine spoke to the registry:\n%s", r.Transcript())
	}
	if left := imagesIn(t, n.machines[0].Driver.Config().DockerAPI); len(left) > 0 {
		t.Errorf("left in the engine: %v", left)
	}

	some := "mode=max"
	spec.Attests = map[string]*string{"provenance": &some}
	if _, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: newClient()}), build.Options{Platforms: spec.Platforms}); err == nil ||
		!strings.Contains(err.Error(), "makes no attestations") {
		t.Errorf("attestations: %v", err)
	}
	spec.Attests, spec.Options.BuildArgs = nil, map[string]string{"BUILDKIT_ATTEST_SBOM": "generator=g"}
	if _, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: newClient()}), build.Options{Platforms: spec.Platforms}); err == nil ||
		!strings.Contains(err.Error(), "sbom: this engine makes no attestations") {
		t.Errorf("attestations by build argument: %v", err)
	}
}

// imagesIn lists the images of an engine: their names by their ID.
func imagesIn(t *testing.T, api mobyclient.APIClient) map[string][]string {
	t.Helper()
	list, err := api.ImageList(t.Context(), mobyclient.ImageListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, im := range list.Items {
		out[im.ID] = im.RepoTags
	}
	return out
}

// imported makes an image without files. No two are the same: each has its time.
func imported(t *testing.T, api mobyclient.APIClient, names ...string) string {
	t.Helper()
	empty := mobyclient.ImageImportSource{Source: bytes.NewReader(make([]byte, 1024)), SourceName: "-"}
	answer, err := api.ImageImport(t.Context(), empty, "", mobyclient.ImageImportOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var said struct{ Status string }
	if err := json.NewDecoder(answer).Decode(&said); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := api.ImageTag(t.Context(), mobyclient.ImageTagOptions{Source: said.Status, Target: name}); err != nil {
			t.Fatal(err)
		}
	}
	return said.Status
}

func TestEngineKeepsTheImagesOfOthers(t *testing.T) {
	api, err := mobyclient.New(mobyclient.WithHost(startEngine(t)))
	if err != nil {
		t.Fatal(err)
	}
	before, named := imported(t, api), imported(t, api, "team/before:1")
	taken, err := newTakeOut(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	built, meanwhile := imported(t, api), imported(t, api, "team/meanwhile:1")
	if len(imagesIn(t, api)) != 4 {
		t.Fatalf("%v", imagesIn(t, api))
	}
	for _, id := range []string{before, named, built, meanwhile, built} {
		if err := taken.forget(t.Context(), id); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	want := map[string][]string{before: {"<none>:<none>"}, named: {"team/before:1"}, meanwhile: {"team/meanwhile:1"}}
	if d := cmp.Diff(want, imagesIn(t, api)); d != "" {
		t.Error(d)
	}
}

// pruned is an engine in which somebody removes all unnamed images just before
// the first one is saved. It returns its endpoint, and how many saves there were.
func pruned(t *testing.T, host string) (string, func() int) {
	t.Helper()
	api, err := mobyclient.New(mobyclient.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(host, "unix://")
	to := &url.URL{Scheme: "http", Host: "engine"}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", socket)
		}},
	}
	var mu sync.Mutex
	saves := 0
	handler := func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/images/get") {
			mu.Lock()
			if saves++; saves == 1 {
				if _, err := api.ImagePrune(r.Context(), mobyclient.ImagePruneOptions{}); err != nil {
					t.Error(err)
				}
			}
			mu.Unlock()
		}
		proxy.ServeHTTP(w, r)
	}
	path := socket + ".pruned"
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(handler)}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "unix://" + path, func() int {
		mu.Lock()
		defer mu.Unlock()
		return saves
	}
}

func TestAnImageThatWasPrunedBeforeItWasSavedIsMadeAgain(t *testing.T) {
	host, saves := pruned(t, startEngine(t))
	t.Setenv("DOCKER_HOST", host)
	r := registrytest.Distribution(t)
	n := openNodes(t, NodeOptions{})
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	im := runWith(t, n, spec, BuildOptions{Registry: newClient()})[0]
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		checkBlob(t, im.Content, d)
	}
	if saves() != 2 {
		t.Errorf("%d saves, want 2", saves())
	}
}
