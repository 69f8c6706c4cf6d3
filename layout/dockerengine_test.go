package layout_test

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
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

// scripted is an engine with fixed answers.
func scripted(t *testing.T, h http.HandlerFunc) layout.Engine {
	t.Helper()
	dir, err := os.MkdirTemp("", "mfd")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "d.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { _ = s.Close(); _ = os.RemoveAll(dir) })
	return layout.Engine{Host: "unix://" + l.Addr().String(), TempDir: t.TempDir()}
}

// Only 404 means that the image is not there (C132).
func TestAnswersOfAnEngine(t *testing.T) {
	for status, absent := range map[int]bool{404: true, 400: false, 403: false, 409: false, 500: false, 503: false, 204: false} {
		e := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			if status != 204 {
				_, _ = w.Write([]byte(`{"message":"because"}`))
			}
		})
		_, err := layout.OpenDockerDaemon(t.Context(), e, "app")
		if err == nil || layout.Absent(err) != absent || status != 204 && !strings.Contains(err.Error(), "docker-daemon:app: because") {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// Without a tag an engine would save every tag, and an archive that ends early
// is not an image.
func TestOneImageIsAskedForAndReadWhole(t *testing.T) {
	var asked []string
	e := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("names"))
		w.Header().Set("Content-Length", "2048")
		_, _ = w.Write(make([]byte, 512))
	})
	for _, name := range []string{"app", "r.example:5000/a:1", "sha256:" + strings.Repeat("a", 64)} {
		if _, err := layout.OpenDockerDaemon(t.Context(), e, name); err == nil || layout.Absent(err) {
			t.Errorf("half an answer: %v", err)
		}
	}
	if got := strings.Join(asked, " "); got != "docker.io/library/app:latest r.example:5000/a:1 sha256:"+strings.Repeat("a", 64) {
		t.Errorf("asked for %s", got)
	}
	if left, _ := os.ReadDir(e.TempDir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEnginesThatCannotBeReachedAreNamed(t *testing.T) {
	for host, reason := range map[string]string{
		"ssh://me@there":       "ssh:// is not supported; use docker save",
		"npipe:////./pipe/x":   "npipe:// is not supported",
		"/var/run/docker.sock": "want unix://PATH",
		"unix:///no/such.sock": "no such file",
	} {
		_, err := layout.OpenDockerDaemon(t.Context(), layout.Engine{Host: host}, "app")
		if err == nil || layout.Absent(err) || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), host) {
			t.Errorf("%s: %v", host, err)
		}
	}
}
