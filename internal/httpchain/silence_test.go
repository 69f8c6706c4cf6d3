package httpchain

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func silence(req *http.Request) (*http.Response, error) {
	return nil, &IdleError{Host: req.URL.Host, During: "waiting for an answer"}
}

// TestSilenceIsRepeatedOnce: an idle time-out is a long wait; a host that is mute
// is asked once per request until it answers one.
func TestSilenceIsRepeatedOnce(t *testing.T) {
	s := &script{}
	var clock fakeClock
	c := New(Options{Transport: s, Clock: clock.clock()})
	for i, request := range []struct {
		host  string
		steps []func(*http.Request) (*http.Response, error)
		sent  int
		fails bool
	}{
		{host: "h.example", steps: []func(*http.Request) (*http.Response, error){silence, status(200)}, sent: 2},
		{host: "h.example", steps: []func(*http.Request) (*http.Response, error){silence, status(503), silence}, sent: 3, fails: true},
		{host: "h.example", steps: []func(*http.Request) (*http.Response, error){silence}, sent: 1, fails: true},
		{host: "other.example", steps: []func(*http.Request) (*http.Response, error){silence, status(200)}, sent: 2},
		{host: "h.example", steps: []func(*http.Request) (*http.Response, error){status(200)}, sent: 1},
		{host: "h.example", steps: []func(*http.Request) (*http.Response, error){silence, silence}, sent: 2, fails: true},
	} {
		s.steps, s.bodies = request.steps, nil
		req := newRequest(t, t.Context(), http.MethodGet, "")
		req.URL.Host = request.host
		resp, err := c.RoundTrip(req)
		var idle *IdleError
		if len(s.bodies) != request.sent || errors.As(err, &idle) != request.fails {
			t.Errorf("request %d was sent %d times, want %d: %v, %v", i, len(s.bodies), request.sent, resp, err)
		}
	}
}

// TestAnswersThatCostNothingHaveAMinute: with the default idle time a host is given
// long only where it has content to take in, or to fetch.
func TestAnswersThatCostNothingHaveAMinute(t *testing.T) {
	for _, request := range []struct {
		method, path, body string
		want               time.Duration
	}{
		{http.MethodHead, "/v2/a/manifests/1", "", time.Minute},
		{http.MethodGet, "/v2/a/manifests/1", "", time.Minute},
		{http.MethodHead, "/v2/a/blobs/sha256:aa", "", time.Minute},
		{http.MethodPost, "/v2/a/blobs/uploads/", "", time.Minute},
		{http.MethodDelete, "/v2/a/manifests/1", "", time.Minute},
		{http.MethodPost, "/token?service=s", "grant_type=password", time.Minute},
		{http.MethodGet, "/v2/a/blobs/sha256:aa", "", DefaultIdle},
		{http.MethodPut, "/v2/a/blobs/uploads/1", "", DefaultIdle},
		{http.MethodPatch, "/v2/a/blobs/uploads/1", "x", DefaultIdle},
		{http.MethodPut, "/v2/a/manifests/1", "x", DefaultIdle},
	} {
		synctest.Test(t, func(t *testing.T) {
			stalled := roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.Body != nil {
					_, _ = req.Body.Read(make([]byte, 100))
				}
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			req, err := http.NewRequestWithContext(t.Context(), request.method, "https://h.example"+request.path, strings.NewReader(request.body))
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			_, err = (&idle{next: stalled, after: DefaultIdle}).RoundTrip(req)
			var idle *IdleError
			if got := time.Since(start); got != request.want || !errors.As(err, &idle) || idle.After != request.want {
				t.Errorf("%s %s was given up after %s, want %s: %v", request.method, request.path, got, request.want, err)
			}
		})
	}
}

// TestRedirectsKeepThePatience: the storage host that a registry sends a blob's
// reader to has as long as the registry itself.
func TestRedirectsKeepThePatience(t *testing.T) {
	for path, want := range map[string]time.Duration{
		"/v2/a/blobs/sha256:aa": DefaultIdle,
		"/v2/a/manifests/1":     time.Minute,
	} {
		synctest.Test(t, func(t *testing.T) {
			moved := roundTripper(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host != "storage.example" {
					to := "https://storage.example/bucket/aa"
					if req.URL.Host == "h.example" {
						to = "https://cdn.example/aa"
					}
					return &http.Response{StatusCode: http.StatusTemporaryRedirect, Header: http.Header{"Location": {to}}, Body: http.NoBody, Request: req}, nil
				}
				<-req.Context().Done()
				return nil, req.Context().Err()
			})
			start := time.Now()
			_, err := (&http.Client{Transport: &idle{next: moved, after: DefaultIdle}}).Get("https://h.example" + path)
			var idle *IdleError
			if got := time.Since(start); got != want || !errors.As(err, &idle) || idle.Host != "storage.example" {
				t.Errorf("%s was given up after %s, want %s: %v", path, got, want, err)
			}
		})
	}
}
