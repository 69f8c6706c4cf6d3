package manifold_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
)

// engine starts a Docker Engine of its own and returns its socket.
func engine(t *testing.T) string {
	t.Helper()
	bin, err := exec.LookPath("dockerd")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs dockerd and root")
	}
	dir, err := os.MkdirTemp("", "mfd") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "d.sock")
	log := &bytes.Buffer{}
	cmd := exec.Command(bin, "--host", "unix://"+socket, "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--storage-driver", "vfs", "--iptables=false", "--ip6tables=false", "--bridge=none")
	ready := &watcher{log: log, want: "API listen on", seen: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = ready, ready
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ready.seen:
	case err := <-ended:
		t.Skipf("dockerd cannot run here: %v\n%s", err, log.String())
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		<-ended
	})
	return socket
}

// watcher tells when a text is written.
type watcher struct {
	log  *bytes.Buffer
	want string
	seen chan struct{}
	done bool
}

func (w *watcher) Write(p []byte) (int, error) {
	n, err := w.log.Write(p)
	if !w.done && strings.Contains(w.log.String(), w.want) {
		w.done = true
		close(w.seen)
	}
	return n, err
}

func docker(t *testing.T, socket string, args ...string) string {
	t.Helper()
	cmd := exec.Command("/usr/bin/docker", append([]string{"-H", "unix://" + socket}, args...)...)
	cmd.Env = append(os.Environ(), "DOCKER_CONFIG="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// A real engine pushes an image that it has made itself, and saves it; the
// manifest read from the archive and the one read from the engine are the one
// that it has pushed, and so are the layers.
func TestDigestIsWhatDockerPushSends(t *testing.T) {
	socket := engine(t)
	reg := registrytest.Distribution(t)
	dir := t.TempDir()
	noise := bytes.Repeat([]byte("some text that compresses, line after line\n"), 60000)
	for name, b := range map[string][]byte{"Dockerfile": []byte("FROM scratch\nCOPY a /a\nCOPY b /b\nENV X=1\n"), "a": noise, "b": []byte("b")} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := reg.Reference("app", "1")
	docker(t, socket, "build", "-q", "-t", name, "-t", "other:2", dir)
	docker(t, socket, "push", name)
	archive := filepath.Join(dir, "app.tar")
	docker(t, socket, "save", "-o", archive, name)
	pushed, ok := reg.Manifest("app", "1")
	if !ok {
		t.Fatal("nothing was pushed")
	}

	fromFile, err := layout.OpenDockerArchive(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer fromFile.Close()
	fromEngine, err := layout.OpenDockerDaemon(t.Context(), layout.Engine{Host: "unix://" + socket}, "other:2")
	if err != nil {
		t.Fatal(err)
	}
	defer fromEngine.Close()
	for where, d := range map[string]*layout.DockerArchive{"archive": fromFile, "engine": fromEngine} {
		got, err := d.Resolve(t.Context(), "")
		if err != nil {
			t.Fatal(where, err)
		}
		if got.Digest != pushed.Digest || !bytes.Equal(got.Bytes, pushed.Bytes) {
			t.Errorf("%s:\n%s\nthe engine pushed\n%s", where, got.Bytes, pushed.Bytes)
		}
		sameBlobs(t, d, reg, got)
	}
	publishFromEngine(t, socket, reg, pushed)
	if _, err := layout.OpenDockerDaemon(t.Context(), layout.Engine{Host: "unix://" + socket}, "none:1"); !layout.Absent(err) {
		t.Errorf("an image that is not there: %v", err)
	}
}

func sameBlobs(t *testing.T, d *layout.DockerArchive, reg *registrytest.Registry, m oci.Blob) {
	t.Helper()
	refs, err := oci.References(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range refs {
		rc, err := d.OpenBlob(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		b := new(bytes.Buffer)
		if _, err := b.ReadFrom(rc); err != nil {
			t.Error(err)
		}
		_ = rc.Close()
		if !reg.HasBlob("app", r.Digest) || int64(b.Len()) != r.Size {
			t.Errorf("%s: %d bytes; the engine did not push it", r.Digest, b.Len())
		}
	}
}

// publishFromEngine makes an index of the engine's image in another repository:
// its child is what the engine has pushed, and arrives whole.
func publishFromEngine(t *testing.T, socket string, reg *registrytest.Registry, pushed oci.Blob) {
	t.Helper()
	m := manifold.New(manifold.Options{Engine: layout.Engine{Host: "unix://" + socket}})
	defer m.Close()
	made, err := m.Create(t.Context(), manifold.CreateOptions{
		Sources: []ref.Location{location(t, "docker-daemon:other:2")},
		Targets: []ref.Reference{reference(t, reg.Reference("team/app", "1"))},
	})
	if err != nil {
		t.Fatal(err)
	}
	idx, err := oci.ParseIndex(made.Index)
	if err != nil || len(idx.Manifests) != 1 || idx.Manifests[0].Digest != pushed.Digest || idx.MediaType != oci.MediaTypeDockerList {
		t.Errorf("%v\n%s", err, made.Index.Bytes)
	}
	refs, err := oci.References(pushed)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range refs {
		if !reg.HasBlob("team/app", d.Digest) {
			t.Errorf("%s did not arrive", d.Digest)
		}
	}
}
