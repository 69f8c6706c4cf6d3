package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
)

var errBroken = errors.New("disk on fire")

// breaking gives the first half of a blob, waits until some of it has arrived,
// and fails.
func breaking(b oci.Blob, arrived <-chan struct{}) io.Reader {
	return io.MultiReader(bytes.NewReader(b.Bytes[:len(b.Bytes)/2]), &failing{after: arrived})
}

type failing struct{ after <-chan struct{} }

func (f *failing) Read([]byte) (int, error) {
	<-f.after
	return 0, errBroken
}

// onDisk runs a test against the registries whose sessions can be looked for.
func onDisk(t *testing.T, f func(*testing.T, *registrytest.Registry)) {
	t.Run("distribution-3", func(t *testing.T) { f(t, registrytest.Distribution(t)) })
	t.Run("docker-2.8", func(t *testing.T) { f(t, registrytest.Docker28(t)) })
}

// wantEnded fails unless the session of an upload that broke off in its body has
// been ended. It is further on than the client was told: Distribution 3 says
// where it is, by one request more; 2.8 does not know it at its old place, and
// there is no way to end it.
func wantEnded(t *testing.T, r *registrytest.Registry) {
	t.Helper()
	left := r.Uploads("d/x")
	if r.Kind == "docker-2.8" {
		wantLog(t, r, "POST uploads Accepted", "PUT uploads ", "DELETE uploads Not Found")
		return
	}
	wantLog(t, r, "POST uploads Accepted", "PUT uploads ", "DELETE uploads Requested Range Not Satisfiable",
		"GET uploads No Content", "DELETE uploads No Content")
	if len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestFaultOfTheSourceIsToldApartAndEndsTheSession(t *testing.T) {
	onDisk(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 1<<20)
		arrived := r.Arrived("PUT", "/uploads/")
		_, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(breaking(b, arrived)), nil
		})
		if !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		wantEnded(t, r)
	})
}

func TestStreamThatEndsInAnErrorEndsItsSession(t *testing.T) {
	onDisk(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 1<<20)
		_, send, err := repo(t, r.Host, "d/x", registry.Options{}).BeginBlob(t.Context(), b.Descriptor, nil)
		noError(t, err)
		if err := send(t.Context(), breaking(b, r.Arrived("PUT", "/uploads/"))); !errors.Is(err, errBroken) {
			t.Errorf("got %v", err)
		}
		wantEnded(t, r)
	})
}

func TestUploadCancelledInItsBodyEndsItsSession(t *testing.T) {
	onDisk(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 1<<20)
		ctx, cancel := context.WithCancel(t.Context())
		arrived := r.Arrived("PUT", "/uploads/")
		_, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(ctx, b.Descriptor, nil, func(ctx context.Context) (io.ReadCloser, error) {
			return io.NopCloser(io.MultiReader(bytes.NewReader(b.Bytes[:len(b.Bytes)/2]), &stuck{arrived, cancel, ctx})), nil
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		wantEnded(t, r)
	})
}

// stuck is a source that gives nothing more; the caller loses patience.
type stuck struct {
	after  <-chan struct{}
	cancel func()
	ctx    context.Context
}

func (s *stuck) Read([]byte) (int, error) {
	<-s.after
	s.cancel()
	<-s.ctx.Done()
	return 0, context.Cause(s.ctx)
}

func TestUploadCancelledBeforeItsBodyEndsItsSession(t *testing.T) {
	onDisk(t, func(t *testing.T, r *registrytest.Registry) {
		b := image(t).Blobs[1]
		ctx, cancel := context.WithCancel(t.Context())
		_, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(ctx, b.Descriptor, nil, func(context.Context) (io.ReadCloser, error) {
			cancel()
			return nil, ctx.Err()
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		ended := r.Count(registrytest.Filter{Method: "DELETE", Path: "/uploads/", Status: 204})
		if left := r.Uploads("d/x"); ended != 1 || len(left) > 0 {
			t.Errorf("ended %d times, left: %v\n%s", ended, left, r.Transcript())
		}
	})
}

// TestSessionThatCannotBeLocatedHoldsNoSlot: an answer that is left open keeps
// its place among the requests of the host for good.
func TestSessionThatCannotBeLocatedHoldsNoSlot(t *testing.T) {
	asked := false
	host := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Method {
		case http.MethodPost:
			w.Header().Set("Location", "/v2/d/x/blobs/uploads/1")
			w.WriteHeader(http.StatusAccepted)
		case http.MethodDelete:
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		default:
			asked = true
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"errors":[{"code":"DENIED"}]}`)
		}
	})
	open := &openBodies{}
	_, err := repo(t, host, "d/x", registry.Options{Transport: open}).CopyBlob(t.Context(), image(t).Blobs[1].Descriptor, nil, func(context.Context) (io.ReadCloser, error) {
		return nil, errBroken
	})
	if !errors.Is(err, errBroken) || !asked {
		t.Errorf("got %v, asked %t", err, asked)
	}
	if n := open.n.Load(); n != 0 {
		t.Errorf("%d answers are open", n)
	}
}

// openBodies counts the answers that nobody has closed.
type openBodies struct{ n atomic.Int32 }

func (o *openBodies) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	o.n.Add(1)
	resp.Body = &counted{resp.Body, sync.OnceFunc(func() { o.n.Add(-1) })}
	return resp, nil
}

type counted struct {
	io.ReadCloser
	closed func()
}

func (c *counted) Close() error {
	c.closed()
	return c.ReadCloser.Close()
}
