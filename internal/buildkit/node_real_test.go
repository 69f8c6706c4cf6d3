package buildkit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	buildx "github.com/docker/buildx/build"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/moby/buildkit/client"
)

// The tests in this file run real buildkitd nodes, each pretending another
// platform. They need root and runc.

var buildkitdBinary = sync.OnceValues(func() (string, error) {
	inTree, err := filepath.Abs("../../bin/buildkitd")
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(inTree); err == nil {
		return inTree, nil
	}
	if path, err := exec.LookPath("buildkitd"); err == nil {
		return path, nil
	}
	out, err := exec.Command("go", "build", "-o", inTree, "github.com/moby/buildkit/cmd/buildkitd").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return inTree, nil
})

// startNode runs a buildkitd of its own for the test and returns its endpoint.
func startNode(t *testing.T, platform string) string {
	t.Helper()
	endpoint, _ := startMortalNode(t, platform)
	return endpoint
}

// startMortalNode is startNode with a way to kill it.
func startMortalNode(t *testing.T, platform string) (endpoint string, kill func()) {
	t.Helper()
	return startNodeWith(t, platform, "native")
}

// startNodeWith is a node that keeps file systems in a way of the caller's choice.
func startNodeWith(t *testing.T, platform, snapshotter string) (endpoint string, kill func()) {
	t.Helper()
	bin, err := buildkitdBinary()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: the path of a socket has a limit of 108 bytes.
	dir, err := os.MkdirTemp("", "bk")
	if err != nil {
		t.Fatal(err)
	}
	endpoint = "unix://" + filepath.Join(dir, "s")
	cmd := exec.Command(bin, "--root", filepath.Join(dir, "root"), "--addr", endpoint, "--containerd-worker=false",
		"--oci-worker=true", "--oci-worker-snapshotter="+snapshotter, "--oci-worker-platform", platform)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	running, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&out, lines.Text())
			if strings.Contains(lines.Text(), "running server on") {
				close(running)
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait()
		if err := registrytest.RemoveAll(dir); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("node %s:\n%s", platform, out.String())
		}
	})
	select {
	case <-running:
	case <-ended:
		t.Fatalf("buildkitd did not start:\n%s", out.String())
	}
	return endpoint, func() { _ = cmd.Process.Kill() }
}

// countedRegistry is a registry that notes every write.
type countedRegistry struct {
	host string

	mu     sync.Mutex
	writes []string
}

func startRegistry(t *testing.T) *countedRegistry {
	t.Helper()
	c := &countedRegistry{}
	inner := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/manifests/") {
			c.mu.Lock()
			c.writes = append(c.writes, strings.TrimPrefix(r.URL.Path, "/v2/"))
			c.mu.Unlock()
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c.host = strings.TrimPrefix(srv.URL, "http://")
	return c
}

func (c *countedRegistry) manifestWrites() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.writes...)
}

func (c *countedRegistry) FetchPushed(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+repo.Host+"/v2/"+repo.Repository+"/manifests/"+d.Digest.String(), nil)
	if err != nil {
		return oci.Blob{}, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return oci.Blob{}, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return oci.Blob{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return oci.Blob{}, fmt.Errorf("%s: %s", req.URL, resp.Status)
	}
	return oci.Blob{Descriptor: d, Bytes: b}, nil
}

func (c *countedRegistry) BeginBlob(context.Context, ref.Reference, oci.Descriptor) (func(context.Context, io.Reader) error, error) {
	return nil, errors.New("nothing is to be relayed")
}

// pair is two nodes, opened the way --node opens them.
func openPair(t *testing.T) *Nodes {
	t.Helper()
	var flags []NodeFlag
	for _, p := range []string{"linux/amd64", "linux/arm64"} {
		f, err := ParseNodeFlag(p + "=" + startNode(t, p))
		if err != nil {
			t.Fatal(err)
		}
		flags = append(flags, f)
	}
	return openNodes(t, NodeOptions{Nodes: flags})
}

func openNodes(t *testing.T, o NodeOptions) *Nodes {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("BUILDX_CONFIG", t.TempDir())
	o.TempDir = t.TempDir()
	n, err := OpenNodes(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		left, err := os.ReadDir(o.TempDir)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
	return n
}

// context writes a build context whose image has one layer of size bytes.
func buildContext(t *testing.T, dockerfile string, size int) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range map[string][]byte{"Dockerfile": []byte(dockerfile), "file": noise(size)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// noise does not compress, so the layer is as large as the file.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func parsePlatforms(t *testing.T, names ...string) []oci.Platform {
	t.Helper()
	var out []oci.Platform
	for _, name := range names {
		p, err := oci.ParsePlatform(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func newSpec(t *testing.T, dir string, ps []oci.Platform, names ...string) *Spec {
	t.Helper()
	return &Spec{
		Options:   buildx.Options{Inputs: buildx.Inputs{ContextPath: dir}},
		Platforms: ps, Names: names, Tags: names, Push: true,
	}
}

func run(t *testing.T, n *Nodes, spec *Spec, reg Registry) []build.Image {
	t.Helper()
	return runWith(t, n, spec, BuildOptions{Registry: reg})
}

func runWith(t *testing.T, n *Nodes, spec *Spec, o BuildOptions) []build.Image {
	t.Helper()
	images, err := build.Run(t.Context(), n.Build(spec, o), build.Options{Platforms: spec.Platforms})
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != len(spec.Platforms) {
		t.Fatalf("%d images of %d platforms", len(images), len(spec.Platforms))
	}
	return images
}

const copyFile = "FROM scratch\nARG TARGETARCH\nLABEL arch=$TARGETARCH\nCOPY file /file\n"

func TestDirectBuildWritesOneManifestPerPlatformAndNoTag(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	ps := parsePlatforms(t, "linux/arm64", "linux/amd64")
	spec := newSpec(t, buildContext(t, copyFile, 64), ps, reg.host+"/d/app:1", reg.host+"/d/app:2", reg.host+"/e/app:1")
	spec.Attests = map[string]*string{"provenance": nil}
	spec.Options.BuildArgs = map[string]string{"BUILDKIT_MULTI_PLATFORM": "true"}
	images := run(t, n, spec, reg)

	want := map[string]int{}
	for i, im := range images {
		want["d/app/manifests/"+im.Manifest.Digest.String()]++
		want["e/app/manifests/"+im.Manifest.Digest.String()]++
		if !im.Pushed || im.Content != nil || len(im.Attestations) > 0 {
			t.Errorf("image %d: pushed %v, content %v, attestations %v", i, im.Pushed, im.Content, im.Attestations)
		}
		if got := oci.FormatPlatform(im.Platform); got != oci.FormatPlatform(ps[i]) {
			t.Errorf("image %d is for %s", i, got)
		}
		if !strings.Contains(im.Node, "unix://") || im.Response["buildx.build.ref"] == "" || im.Duration <= 0 {
			t.Errorf("image %d: node %q, response %v, took %v", i, im.Node, im.Response, im.Duration)
		}
		m, err := oci.ParseManifest(im.Manifest)
		if err != nil || m.Config.Digest != im.Config || len(m.Layers) != 1 {
			t.Errorf("image %d: %v, %+v", i, err, m)
		}
	}
	got := map[string]int{}
	for _, w := range reg.manifestWrites() {
		got[w]++
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("manifests written (-want +got):\n%s", diff)
	}
	if images[0].Node == images[1].Node {
		t.Errorf("both were built on %s", images[0].Node)
	}
}

func TestAttestationsComeWithoutLayersAndLeaveNoLitter(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64", "linux/arm64"), reg.host+"/d/app:1")
	var shown names
	images := runWith(t, n, spec, BuildOptions{Registry: reg, Progress: &shown})

	// A second pass would be a second context to send, and time.
	if all := shown.String(); strings.Contains(all, attestationLabel) || !strings.Contains(all, "exporting to image") {
		t.Errorf("steps:\n%s", all)
	}
	if got := len(reg.manifestWrites()); got != len(images) {
		t.Errorf("%d manifests written for %d images: %v", got, len(images), reg.manifestWrites())
	}
	for _, im := range images {
		if !im.Pushed || len(im.Leftovers) > 0 {
			t.Errorf("%s: pushed %v, leftovers %v", im.Node, im.Pushed, im.Leftovers)
		}
		checkAttestations(t, im, reg.host+"/d/app")
		m, err := oci.ParseManifest(im.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range append(m.Layers, m.Config, im.Manifest.Descriptor) {
			if _, err := im.Content.OpenBlob(t.Context(), d); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s came through the client: %v", d.Digest, err)
			}
		}
		if s := im.Content.(*Store); s.bytesReceived() > 64<<10 {
			t.Errorf("%d bytes came through the client", s.bytesReceived())
		}
	}
}

func TestAttestationAskedForByBuildArgumentLeavesNoLitter(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 64), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	spec.Options.BuildArgs = map[string]string{"BUILDKIT_ATTEST_PROVENANCE": "mode=max"}
	im := run(t, n, spec, reg)[0]
	checkAttestations(t, im, reg.host+"/d/app")
	if got := reg.manifestWrites(); len(got) != 1 {
		t.Errorf("manifests written: %v", got)
	}
}

func TestLayersOfTheBaseImageStayBetweenNodeAndRegistry(t *testing.T) {
	reg := startRegistry(t)
	ps := parsePlatforms(t, "linux/amd64")
	base := newSpec(t, buildContext(t, copyFile, 3<<20), ps, reg.host+"/d/base:1")
	base.Attests = map[string]*string{"provenance": nil}
	im := run(t, openPair(t), base, reg)[0]

	// Other nodes, which have nothing of it.
	from := "FROM " + reg.host + "/d/base@" + im.Manifest.Digest.String() + "\nCOPY file /own\n"
	spec := newSpec(t, buildContext(t, from, 64), ps, reg.host+"/d/app:1")
	im = run(t, openPair(t), spec, reg)[0]
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil || len(m.Layers) != 2 || len(im.Leftovers) > 0 || !im.Pushed {
		t.Errorf("%v, layers %v, leftovers %v", err, m.Layers, im.Leftovers)
	}
	checkAttestations(t, im, reg.host+"/d/app")
	if n := im.Content.(*Store).bytesReceived(); n > 64<<10 {
		t.Errorf("%d bytes came through the client", n)
	}
}

func TestImageWithoutLayersIsNotAttested(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, "FROM scratch\nLABEL a=b\n", 1), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	// BuildKit makes none for it.
	if im := run(t, n, spec, reg)[0]; !im.Pushed || len(im.Attestations) > 0 || im.Content != nil || len(im.Leftovers) > 0 {
		t.Errorf("%+v", im)
	}
}

// names is a progress writer that notes the names of steps.
type names struct {
	silent
	mu   sync.Mutex
	seen []string
}

func (n *names) Write(s *client.SolveStatus) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, v := range s.Vertexes {
		n.seen = append(n.seen, v.Name)
	}
}

func (n *names) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.seen, "\n")
}

func (s *Store) bytesReceived() (n int64) {
	for _, b := range s.blobs {
		n += b.size
	}
	return n
}

func checkAttestations(t *testing.T, im build.Image, name string) {
	t.Helper()
	if len(im.Attestations) != 1 || len(im.AttestationEntries) != 1 {
		t.Fatalf("%d attestations, %d entries", len(im.Attestations), len(im.AttestationEntries))
	}
	e := im.AttestationEntries[0]
	if subject, ok := oci.IsAttestation(e.Descriptor); !ok || subject != im.Manifest.Digest {
		t.Errorf("attestation of %s for image %s", subject, im.Manifest.Digest)
	}
	if !oci.IsUnknownPlatform(e.Platform) || e.Digest != im.Attestations[0].Digest || len(e.Raw) == 0 {
		t.Errorf("entry %+v", e)
	}
	m, err := oci.ParseManifest(im.Attestations[0])
	if err != nil || len(m.Layers) != 1 {
		t.Fatalf("attestation manifest: %v, %+v", err, m)
	}
	r, err := im.Content.OpenBlob(t.Context(), m.Layers[0])
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
		PredicateType string
	}
	if err := json.NewDecoder(r).Decode(&statement); err != nil {
		t.Fatal(err)
	}
	if len(statement.Subject) != 1 || statement.Subject[0].Digest["sha256"] != im.Manifest.Digest.Encoded() {
		t.Errorf("subject %v of statement is not %s of %s", statement.Subject, im.Manifest.Digest, name)
	}
}

func TestImageIsTheOneThatAPlainBuildMakes(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 64), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	spec.Image = map[string]string{
		"annotation.a": "all", "annotation-manifest[linux/amd64].b": "amd64", "compression": "zstd", "unpack": "false",
	}
	images := run(t, n, spec, reg)
	attested := images[0]
	m, err := oci.ParseManifest(attested.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"a": "all", "b": "amd64"}, m.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
	if !strings.HasSuffix(m.Layers[0].MediaType, "+zstd") || len(attested.Leftovers) > 0 {
		t.Errorf("layer %s, leftovers %v", m.Layers[0].MediaType, attested.Leftovers)
	}
	spec.Attests = map[string]*string{"provenance": nil}
	if again := run(t, n, spec, reg)[0]; again.Manifest.Digest != attested.Manifest.Digest {
		t.Errorf("%s without attestations, %s with", again.Manifest.Digest, attested.Manifest.Digest)
	}
}

func TestBuildThatDoesNotRepeatItselfUsesTheAttestedImage(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 2<<20), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	p := n.Build(spec, BuildOptions{Registry: reg})[0].(*port)
	first := pushOptions(spec, spec.Platforms[0], []string{reg.host + "/d/app"})
	results, err := p.solve(t.Context(), []target{{platform: spec.Platforms[0], options: first}}, "", false)
	if err != nil {
		t.Fatal(err)
	}
	repos, err := repositories(spec.Names)
	if err != nil {
		t.Fatal(err)
	}
	images, errs := p.readPushed(t.Context(), results, repos)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	pushed := images[0].Manifest.Digest
	// The second pass sees another context, as one that downloads would.
	spec.Options.Inputs.ContextPath = buildContext(t, copyFile, 2<<20+1)
	if err := p.attest(t.Context(), []*build.Image{&images[0]}, false); err != nil {
		t.Fatal(err)
	}
	im := images[0]
	if im.Pushed || len(im.Leftovers) != 1 || im.Leftovers[0] != pushed || im.Manifest.Digest == pushed {
		t.Fatalf("pushed %v, leftovers %v, manifest %s", im.Pushed, im.Leftovers, im.Manifest.Digest)
	}
	checkAttestations(t, im, reg.host+"/d/app")
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range append(m.Layers, m.Config) {
		checkBlob(t, im.Content, d)
	}
}

func checkBlob(t *testing.T, c build.Content, d oci.Descriptor) {
	t.Helper()
	r, err := c.OpenBlob(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := oci.Check(d, b); err != nil {
		t.Error(err)
	}
}

func TestRelayBringsEverythingThroughTheClient(t *testing.T) {
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64", "linux/arm64"), "registry.test/d/app:1")
	for _, im := range run(t, n, spec, nil) {
		if im.Pushed {
			t.Errorf("%s: pushed", im.Node)
		}
		checkAttestations(t, im, "registry.test/d/app")
		m, err := oci.ParseManifest(im.Manifest)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range append(m.Layers, m.Config) {
			checkBlob(t, im.Content, d)
		}
	}
}

func TestFailureNamesItsPlatformAndMovesNothing(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	dir := buildContext(t, "FROM scratch\nARG TARGETARCH\nCOPY file-$TARGETARCH /file\n", 1)
	if err := os.WriteFile(filepath.Join(dir, "file-amd64"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := newSpec(t, dir, parsePlatforms(t, "linux/amd64", "linux/arm64"), reg.host+"/d/app:1")
	images, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: reg}), build.Options{Platforms: spec.Platforms})
	var failed *build.NodeError
	if !errors.As(err, &failed) || failed.Platform == nil || failed.Platform.Architecture != "arm64" {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "file-arm64") || strings.Contains(err.Error(), "canceled") {
		t.Errorf("error does not tell the cause: %v", err)
	}
	var source bytes.Buffer
	if Explain(&source, err); !strings.Contains(source.String(), ">>> COPY file-$TARGETARCH") {
		t.Errorf("source: %q", source.String())
	}
	for _, w := range reg.manifestWrites() {
		if !strings.Contains(w, "@sha256:") && !strings.Contains(w, "/sha256:") {
			t.Errorf("tag written: %s", w)
		}
	}
	for _, im := range images {
		if im.Platform.Architecture != "amd64" {
			t.Errorf("image of %s", im.Platform.Architecture)
		}
	}
}

func TestSeveralPlatformsOnOneNode(t *testing.T) {
	reg := startRegistry(t)
	f, err := ParseNodeFlag(startNode(t, "linux/amd64"))
	if err != nil {
		t.Fatal(err)
	}
	f.Platforms = parsePlatforms(t, "linux/amd64", "linux/s390x", "linux/arm/v7")
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{f}})
	spec := newSpec(t, buildContext(t, copyFile, 64), f.Platforms, reg.host+"/d/app:1")
	images := run(t, n, spec, reg)
	if got := len(reg.manifestWrites()); got != 3 {
		t.Errorf("%d manifests written: %v", got, reg.manifestWrites())
	}
	for _, im := range images {
		checkAttestations(t, im, reg.host+"/d/app")
	}

	dir := buildContext(t, "FROM scratch\nARG TARGETARCH\nCOPY file-$TARGETARCH /file\n", 1)
	spec = newSpec(t, dir, f.Platforms, reg.host+"/d/app:2")
	if err := os.WriteFile(filepath.Join(dir, "file-s390x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	images, err = build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: reg}), build.Options{Platforms: f.Platforms, KeepGoing: true})
	if err == nil || !strings.Contains(err.Error(), "file-amd64") || !strings.Contains(err.Error(), "file-arm") {
		t.Errorf("error %v", err)
	}
	if len(images) != 1 || images[0].Platform.Architecture != "s390x" {
		t.Errorf("kept going to %v", images)
	}
}

// unread is a registry that does not give back the first manifest it is asked for.
type unread struct {
	*countedRegistry
	once sync.Once
	lost oci.Descriptor
}

func (u *unread) FetchPushed(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	var err error
	u.once.Do(func() { u.lost, err = d, errors.New("it is not there") })
	if err != nil {
		return oci.Blob{}, err
	}
	return u.countedRegistry.FetchPushed(ctx, repo, d)
}

func TestPlatformThatFailsTakesNoAttestationsFromOthers(t *testing.T) {
	f, err := ParseNodeFlag(startNode(t, "linux/amd64"))
	if err != nil {
		t.Fatal(err)
	}
	f.Platforms = parsePlatforms(t, "linux/amd64", "linux/s390x")
	reg := &unread{countedRegistry: startRegistry(t)}
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{f}})
	spec := newSpec(t, buildContext(t, copyFile, 64), f.Platforms, reg.host+"/d/app:1")
	p := n.Build(spec, BuildOptions{Registry: reg})[0].(*port)
	images, err := p.direct(t.Context(), f.Platforms, true)
	if err == nil || len(build.Parts(err)) != 1 || len(images) != 2 {
		t.Fatalf("%d images, %v", len(images), err)
	}
	for _, im := range images {
		if !im.Pushed {
			t.Errorf("%s was pushed", im.Manifest.Digest)
		}
		if im.Manifest.Digest != reg.lost.Digest {
			checkAttestations(t, im, reg.host+"/d/app")
		}
	}

	// The same of the second pass: one image of the two cannot be attested.
	images, errs := p.readPushed(t.Context(), mustPush(t, p, f.Platforms, reg.host+"/d/app"), []ref.Reference{{Host: reg.host, Repository: "d/app"}})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	images[0].Manifest.Bytes = []byte("{}")
	if err := p.attest(t.Context(), []*build.Image{&images[0], &images[1]}, true); err == nil || len(build.Parts(err)) != 1 {
		t.Errorf("error %v", err)
	}
	checkAttestations(t, images[1], reg.host+"/d/app")
}

func mustPush(t *testing.T, p *port, platforms []oci.Platform, repository string) []result {
	t.Helper()
	var targets []target
	for _, pl := range platforms {
		targets = append(targets, target{platform: pl, options: pushOptions(p.spec, pl, []string{repository})})
	}
	results, err := p.solve(t.Context(), targets, "", false)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

func TestDockerfileFromStandardInputReachesEveryNodeAndPass(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, "-", parsePlatforms(t, "linux/amd64", "linux/arm64"), reg.host+"/d/app:1")
	spec.Options.Inputs.InStream = buildx.NewSyncMultiReader(strings.NewReader("FROM scratch\nWORKDIR /made\n"))
	for _, im := range run(t, n, spec, reg) {
		checkAttestations(t, im, reg.host+"/d/app")
	}
}

func TestCacheOfEachPlatformIsKept(t *testing.T) {
	reg := startRegistry(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 64), parsePlatforms(t, "linux/amd64", "linux/arm64"), reg.host+"/d/app:1")
	cache := t.TempDir()
	spec.Options.CacheTo = []client.CacheOptionsEntry{{Type: "local", Attrs: map[string]string{"dest": cache, "mode": "max"}}}
	run(t, n, spec, reg)
	for _, p := range []string{"linux-amd64", "linux-arm64"} {
		if _, err := os.Stat(filepath.Join(cache, p, "index.json")); err != nil {
			t.Error(err)
		}
	}
}

// hangingServer never answers; asked gets a value for each request, gone one
// when its client has given up.
func hangingServer(t *testing.T) (url string, asked, gone chan struct{}) {
	t.Helper()
	asked, gone = make(chan struct{}, 16), make(chan struct{}, 16)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(srv.Close)
	return srv.URL, asked, gone
}

func TestCancellationStopsTheBuildOnTheNode(t *testing.T) {
	url, asked, gone := hangingServer(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, "FROM scratch\nADD "+url+"/file /file\n", 1), parsePlatforms(t, "linux/amd64"), "registry.test/d/app:1")
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stopped by the user")
	go func() {
		<-asked
		cancel(stop)
	}()
	if _, err := build.Run(ctx, n.Build(spec, BuildOptions{}), build.Options{Platforms: spec.Platforms}); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
	<-gone
}

func TestNodeThatDiesIsNamed(t *testing.T) {
	url, asked, _ := hangingServer(t)
	endpoint, kill := startMortalNode(t, "linux/amd64")
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{{Endpoint: endpoint, Platforms: parsePlatforms(t, "linux/amd64")}}})
	spec := newSpec(t, buildContext(t, "FROM scratch\nADD "+url+"/file /file\n", 1), parsePlatforms(t, "linux/amd64"), "registry.test/d/app:1")
	go func() {
		<-asked
		kill()
	}()
	_, err := build.Run(t.Context(), n.Build(spec, BuildOptions{}), build.Options{Platforms: spec.Platforms})
	var failed *build.NodeError
	if !errors.As(err, &failed) || failed.Node != endpoint || failed.Platform == nil {
		t.Errorf("error %v", err)
	}
}

func TestFailureOnOneNodeStopsTheOthers(t *testing.T) {
	url, _, _ := hangingServer(t)
	n := openPair(t)
	dir := buildContext(t, "FROM scratch AS base-amd64\nADD "+url+"/file /file\n"+
		"FROM scratch AS base-arm64\nCOPY missing /file\nFROM base-$TARGETARCH\n", 1)
	spec := newSpec(t, dir, parsePlatforms(t, "linux/amd64", "linux/arm64"), "registry.test/d/app:1")
	_, err := build.Run(t.Context(), n.Build(spec, BuildOptions{}), build.Options{Platforms: spec.Platforms})
	var failed *build.NodeError
	if !errors.As(err, &failed) || failed.Platform == nil || failed.Platform.Architecture != "arm64" {
		t.Errorf("error %v", err)
	}
}

func TestSilentNodeIsNamedWithTheTimeWaited(t *testing.T) {
	f, err := ParseNodeFlag("linux/amd64=unix://" + filepath.Join(t.TempDir(), "none.sock"))
	if err != nil {
		t.Fatal(err)
	}
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{f}, Timeout: 10 * time.Millisecond})
	spec := newSpec(t, t.TempDir(), f.Platforms, "registry.test/d/app:1")
	_, err = build.Run(t.Context(), n.Build(spec, BuildOptions{}), build.Options{Platforms: f.Platforms})
	var silent *build.UnreachableError
	if !errors.As(err, &silent) || silent.Endpoint != f.Endpoint || silent.Waited <= 0 {
		t.Fatalf("error %v", err)
	}
	if !strings.Contains(err.Error(), "no such file") {
		t.Errorf("the reason is missing: %v", err)
	}
}
