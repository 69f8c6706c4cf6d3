package localregistry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"

	"github.com/manifold-oci/manifold/internal/localregistry"
)

const manifestType = "application/vnd.oci.image.manifest.v1+json"

func start(t *testing.T, o localregistry.Options) *localregistry.Server {
	t.Helper()
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	s, err := localregistry.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// do sends a request and returns the answer with its body read.
func do(t *testing.T, method, url, contentType, body string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Accept", manifestType)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func want(t *testing.T, status int, resp *http.Response, body string) {
	t.Helper()
	if resp.StatusCode != status {
		t.Fatalf("%s %s: %s, want %d: %s", resp.Request.Method, resp.Request.URL, resp.Status, status, body)
	}
}

// pushImage stores a config and the manifest that names it, tagged.
func pushImage(t *testing.T, s *localregistry.Server, repo, tag string) (manifest string) {
	t.Helper()
	config := "{}"
	base := "http://" + s.Addr() + "/v2/" + repo
	resp, body := do(t, "POST", base+"/blobs/uploads/", "", "")
	want(t, http.StatusAccepted, resp, body)
	resp, body = do(t, "PUT", resp.Header.Get("Location")+"&digest="+digest.FromString(config).String(), "application/octet-stream", config)
	want(t, http.StatusCreated, resp, body)
	manifest = `{"schemaVersion":2,"mediaType":"` + manifestType + `","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"` +
		digest.FromString(config).String() + `","size":2},"layers":[]}`
	resp, body = do(t, "PUT", base+"/manifests/"+tag, manifestType, manifest)
	want(t, http.StatusCreated, resp, body)
	return manifest
}

func wantManifest(t *testing.T, s *localregistry.Server, repo, ref, manifest string) {
	t.Helper()
	resp, body := do(t, "GET", "http://"+s.Addr()+"/v2/"+repo+"/manifests/"+ref, "", "")
	want(t, http.StatusOK, resp, body)
	if body != manifest {
		t.Errorf("read back %q, want %q", body, manifest)
	}
}

func TestPushedContentIsReadBackByteForByte(t *testing.T) {
	s := start(t, localregistry.Options{Dir: t.TempDir()})
	manifest := pushImage(t, s, "team/app", "1")
	wantManifest(t, s, "team/app", "1", manifest)
	wantManifest(t, s, "team/app", digest.FromString(manifest).String(), manifest)
	resp, body := do(t, "GET", "http://"+s.Addr()+"/v2/team/app/blobs/"+digest.FromString("{}").String(), "", "")
	want(t, http.StatusOK, resp, body)
	if body != "{}" {
		t.Errorf("blob = %q", body)
	}
}

func TestTagsManifestsAndBlobsCanBeDeleted(t *testing.T) {
	s := start(t, localregistry.Options{Dir: t.TempDir()})
	manifest := pushImage(t, s, "app", "1")
	base := "http://" + s.Addr() + "/v2/app"
	for _, path := range []string{
		"/manifests/1",
		"/manifests/" + digest.FromString(manifest).String(),
		"/blobs/" + digest.FromString("{}").String(),
	} {
		resp, body := do(t, "DELETE", base+path, "", "")
		want(t, http.StatusAccepted, resp, body)
		resp, body = do(t, "GET", base+path, "", "")
		want(t, http.StatusNotFound, resp, body)
	}
}

func TestContentOutlivesTheServer(t *testing.T) {
	dir := t.TempDir()
	s := start(t, localregistry.Options{Dir: dir})
	manifest := pushImage(t, s, "app", "1")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantManifest(t, start(t, localregistry.Options{Dir: dir}), "app", "1", manifest)
}

func TestReadOnlyRefusesWrites(t *testing.T) {
	dir := t.TempDir()
	first := start(t, localregistry.Options{Dir: dir})
	manifest := pushImage(t, first, "app", "1")
	s := start(t, localregistry.Options{Dir: dir, ReadOnly: true})
	wantManifest(t, s, "app", "1", manifest)
	for _, method := range []string{"PUT", "DELETE"} {
		resp, body := do(t, method, "http://"+s.Addr()+"/v2/app/manifests/1", manifestType, manifest)
		want(t, http.StatusMethodNotAllowed, resp, body)
	}
	resp, body := do(t, "POST", "http://"+s.Addr()+"/v2/app/blobs/uploads/", "", "")
	want(t, http.StatusMethodNotAllowed, resp, body)
}

func TestAddressesOthersCanReachAreRefused(t *testing.T) {
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "registry.example:0"} {
		s, err := localregistry.Start(t.Context(), localregistry.Options{Address: addr, Dir: t.TempDir()})
		if s != nil {
			_ = s.Close()
		}
		if !errors.Is(err, localregistry.ErrRemote) {
			t.Errorf("Start(%q) = %v, want ErrRemote", addr, err)
		}
	}
}

func TestAllowRemoteListensEverywhere(t *testing.T) {
	s := start(t, localregistry.Options{Address: "0.0.0.0:0", AllowRemote: true, Dir: t.TempDir()})
	if s.Addr() == "" {
		t.Error("no address")
	}
}

func TestAddressInUseIsSaidPlainly(t *testing.T) {
	s := start(t, localregistry.Options{Dir: t.TempDir()})
	_, err := localregistry.Start(t.Context(), localregistry.Options{Address: s.Addr(), Dir: t.TempDir()})
	if !errors.Is(err, localregistry.ErrInUse) {
		t.Fatalf("error = %v, want ErrInUse", err)
	}
	if got, want := err.Error(), s.Addr()+": address is in use"; got != want {
		t.Errorf("error = %q, want %q", got, want)
	}
}

func TestUnusableDirectoryIsSaidPlainly(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"", file, filepath.Join(file, "below")} {
		var e *localregistry.Error
		_, err := localregistry.Start(t.Context(), localregistry.Options{Address: "127.0.0.1:0", Dir: dir})
		if !errors.As(err, &e) {
			t.Errorf("Dir %q: error = %v, want an *Error", dir, err)
		}
	}
}

func TestServeStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := localregistry.Serve(ctx, localregistry.Options{Address: "127.0.0.1:0", Dir: t.TempDir()}); err != nil {
		t.Errorf("Serve = %v", err)
	}
}

// The global logger of logrus writes to standard error; a registry inside
// another program must not.
func TestLogGoesToTheGivenLoggerOnly(t *testing.T) {
	var global, given syncBuffer
	before := logrus.StandardLogger().Out
	logrus.SetOutput(&global)
	t.Cleanup(func() { logrus.SetOutput(before) })

	s := start(t, localregistry.Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&given, nil))})
	pushImage(t, s, "app", "1")
	silent := start(t, localregistry.Options{Dir: t.TempDir()})
	pushImage(t, silent, "app", "1")
	resp, _ := do(t, "GET", "http://"+silent.Addr()+"/v2/app/manifests/absent", "", "")
	want(t, http.StatusNotFound, resp, "")
	for _, s := range []*localregistry.Server{s, silent} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := global.String(); got != "" {
		t.Errorf("the global logger was used: %s", got)
	}
	if !strings.Contains(given.String(), "/v2/app/manifests/1") {
		t.Errorf("the given logger does not know the push: %s", given.String())
	}
}

func TestBrokenUploadsArePurgedAfterAWeek(t *testing.T) {
	dir := t.TempDir()
	uploads := filepath.Join(dir, "docker/registry/v2/repositories/team/app/_uploads")
	old, recent := filepath.Join(uploads, "old"), filepath.Join(uploads, "recent")
	now := time.Now()
	for path, age := range map[string]time.Duration{old: 8 * 24 * time.Hour, recent: time.Hour} {
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		data := filepath.Join(path, "data")
		if err := os.WriteFile(data, []byte("part"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(data, now.Add(-age), now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	start(t, localregistry.Options{Dir: dir})
	if _, err := os.Stat(old); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("old upload: %v, want it gone", err)
	}
	if _, err := os.Stat(recent); err != nil {
		t.Errorf("recent upload: %v, want it kept", err)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
