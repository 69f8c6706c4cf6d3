package buildkit

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
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
	images, err := n.machines[0].Driver.Config().DockerAPI.ImageInspect(t.Context(), im.Config.String())
	if err != nil || len(images.RepoTags) > 0 {
		t.Errorf("%v, tags %v", err, images.RepoTags)
	}

	some := "mode=max"
	spec.Attests = map[string]*string{"provenance": &some}
	if _, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: newClient()}), build.Options{Platforms: spec.Platforms}); err == nil ||
		!strings.Contains(err.Error(), "makes no attestations") {
		t.Errorf("attestations: %v", err)
	}
}
