package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// naps sleeps without waiting and remembers for how long.
type naps struct {
	mu  sync.Mutex
	all []time.Duration
}

func (n *naps) sleep(ctx context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, d)
	return ctx.Err()
}

func (n *naps) list() []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]time.Duration(nil), n.all...)
}

// repo opens a repository of a client that does not wait.
func repo(t *testing.T, host, path string, o registry.Options) *registry.Repository {
	t.Helper()
	if o.Sleep == nil {
		o.Sleep = (&naps{}).sleep
	}
	return on(t, registry.NewClient(o), host, path)
}

func on(t *testing.T, c *registry.Client, host, path string) *registry.Repository {
	t.Helper()
	r, err := ref.Parse(host + "/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return c.Repository(r)
}

func login(user, password string) func(context.Context, string) (registry.Credential, error) {
	return func(context.Context, string) (registry.Credential, error) {
		return registry.Credential{Username: user, Password: password, Source: "the test"}, nil
	}
}

// opener opens b, and counts how often.
func opener(b []byte, times *int) func(context.Context) (io.ReadCloser, error) {
	return func(context.Context) (io.ReadCloser, error) {
		if times != nil {
			*times++
		}
		return io.NopCloser(bytes.NewReader(b)), nil
	}
}

// wantLog compares the requests of a registry, "METHOD kind status" each.
func wantLog(t *testing.T, r *registrytest.Registry, want ...string) {
	t.Helper()
	var got []string
	for _, q := range r.Log() {
		got = append(got, q.Method+" "+kind(q.Path)+" "+http.StatusText(q.Status))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests (-want +got):\n%s\n%s", d, r.Transcript())
	}
}

func kind(path string) string {
	for _, k := range []string{"/manifests/", "/blobs/uploads/", "/blobs/", "/tags/", "/referrers/"} {
		if strings.Contains(path, k) {
			return strings.Trim(k[strings.LastIndex(strings.TrimSuffix(k, "/"), "/"):], "/")
		}
	}
	return path
}

// image is small, with one layer.
func image(t *testing.T) registrytest.Content {
	t.Helper()
	return registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
}

// big has a layer of somewhat over n bytes.
func big(t *testing.T, n int) oci.Blob {
	t.Helper()
	return registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Pad: n}).Blobs[1]
}

// scripted is a server with one handler, and the host to reach it by.
func scripted(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.Listener.Addr().String()
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// asError returns err as an *registry.Error.
func asError(t *testing.T, err error) *registry.Error {
	t.Helper()
	var e *registry.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want a *registry.Error", err, err)
	}
	return e
}
