package layout_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/layout"
)

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

// Only 404 means that the image is not there.
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

// TestLoginOfAnEngineIsNotShown: whatever is wrong with DOCKER_HOST.
func TestLoginOfAnEngineIsNotShown(t *testing.T) {
	answers := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(answers.Close)
	for _, host := range []string{
		"tcp://u:SECRET@127.0.0.1:1", "tcp://u:SE CRET@h", "tcp://u:SE/CRET@h", "tcp://u:SE%zzCRET@h", "ssh://u:SECRET@h",
		"u:SECRET@h:2375", "tcp:u:SECRET@h", "https://SECRET@127.0.0.1:1", "tcp://u:SECRET@" + answers.Listener.Addr().String(),
	} {
		_, err := layout.OpenDockerDaemon(t.Context(), layout.Engine{Host: host}, "app")
		var refused *layout.EngineError
		if !errors.As(err, &refused) || strings.Contains(err.Error(), "SE") || strings.Contains(err.Error(), "CRET") || strings.Contains(refused.Host, "SE") {
			t.Errorf("%v", err)
		}
	}
}
