package httpchain

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/report"
)

// fakeClock moves only when somebody sleeps.
type fakeClock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func (c *fakeClock) clock() Clock {
	c.now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return Clock{
		Now: func() time.Time {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.now
		},
		Sleep: func(ctx context.Context, d time.Duration) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.now = c.now.Add(d)
			c.slept = append(c.slept, d)
			return ctx.Err()
		},
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func answer(req *http.Request, status int, body string, header ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(header); i += 2 {
		h.Add(header[i], header[i+1])
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: h, Request: req,
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// script answers with one step after the other and reads each request's body.
type script struct {
	steps  []func(*http.Request) (*http.Response, error)
	bodies []string
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		b, _ := io.ReadAll(req.Body)
		body = string(b)
	}
	s.bodies = append(s.bodies, body)
	if len(s.steps) == 0 {
		return nil, errors.New("no answer left in the script")
	}
	step := s.steps[0]
	s.steps = s.steps[1:]
	return step(req)
}

func status(code int, header ...string) func(*http.Request) (*http.Response, error) {
	return func(req *http.Request) (*http.Response, error) { return answer(req, code, "", header...), nil }
}

func broken(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

func newRequest(t *testing.T, ctx context.Context, method, body string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "https://reg.example/v2/a/manifests/1", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func send(t *testing.T, s *script, o Options, req *http.Request) (*http.Response, error) {
	t.Helper()
	o.Transport = s
	resp, err := New(o).RoundTrip(req)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func TestRetryAfterIsObeyedInBothForms(t *testing.T) {
	for name, header := range map[string]string{
		"seconds": "7",
		"date":    time.Date(2026, 1, 2, 3, 4, 12, 0, time.UTC).Format(http.TimeFormat),
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPut} {
			t.Run(name+" "+method, func(t *testing.T) {
				clock := &fakeClock{}
				var waits []time.Duration
				o := Options{Clock: clock.clock(), Report: func(e report.Event) { waits = append(waits, e.Delay) }}
				s := &script{steps: []func(*http.Request) (*http.Response, error){status(429, "Retry-After", header), status(201)}}
				resp, err := send(t, s, o, newRequest(t, t.Context(), method, "x"))
				if err != nil || resp.StatusCode != 201 {
					t.Fatalf("got %v, %v", resp, err)
				}
				if d := cmp.Diff([]time.Duration{7 * time.Second}, clock.slept); d != "" {
					t.Errorf("waited: %s", d)
				}
				if d := cmp.Diff([]time.Duration{7 * time.Second}, waits); d != "" {
					t.Errorf("reported: %s", d)
				}
			})
		}
	}
}

func TestWaitBeyondTheBudgetStopsAtOnce(t *testing.T) {
	clock := &fakeClock{}
	chain := New(Options{Clock: clock.clock(), Transport: &script{steps: []func(*http.Request) (*http.Response, error){status(429, "Retry-After", "86400")}}})
	for _, who := range []string{"the one that is told", "the next one to the host"} {
		_, err := chain.RoundTrip(newRequest(t, t.Context(), http.MethodGet, ""))
		var wait *WaitError
		if !errors.As(err, &wait) || wait.Wait != 24*time.Hour || wait.Host != "reg.example" {
			t.Fatalf("%s: got %v, want a WaitError of 24 h that names the host", who, err)
		}
	}
	if len(clock.slept) != 0 {
		t.Errorf("waited %v all the same", clock.slept)
	}
}

// TestWaitThatNoDurationHoldsStopsAtOnce: it is shown as the host said it, also to
// the requests after it.
func TestWaitThatNoDurationHoldsStopsAtOnce(t *testing.T) {
	for header, shown := range map[string]string{
		"2147483648":                    "596523h14m8s",
		"99999999999":                   "99999999999 seconds",
		strings.Repeat("9", 50):         strings.Repeat("9", 20) + "... seconds",
		"Fri, 31 Dec 9999 23:59:59 GMT": "until Fri, 31 Dec 9999 23:59:59 GMT",
	} {
		clock := &fakeClock{}
		s := &script{steps: []func(*http.Request) (*http.Response, error){status(429, "Retry-After", header), status(200)}}
		chain := New(Options{Clock: clock.clock(), Transport: s})
		for range 2 {
			_, err := chain.RoundTrip(newRequest(t, t.Context(), http.MethodGet, ""))
			var wait *WaitError
			if !errors.As(err, &wait) || err.Error() != "reg.example asks to wait "+shown+", the limit is 2m0s" {
				t.Errorf("%s: %v", header, err)
			}
		}
		if len(clock.slept) != 0 || len(s.bodies) != 1 {
			t.Errorf("%s: waited %v, sent %d", header, clock.slept, len(s.bodies))
		}
	}
}

func TestEveryRequestToAHostWaitsWhenOneWasTold(t *testing.T) {
	clock := &fakeClock{}
	s := &script{steps: []func(*http.Request) (*http.Response, error){status(429, "Retry-After", "9"), status(200)}}
	chain := New(Options{Clock: clock.clock(), Transport: s, Attempts: 1})
	if resp, err := chain.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "")); err != nil || resp.StatusCode != 429 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if resp, err := chain.RoundTrip(newRequest(t, t.Context(), http.MethodGet, "")); err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if d := cmp.Diff([]time.Duration{9 * time.Second}, clock.slept); d != "" {
		t.Errorf("the second request waited: %s", d)
	}
}

func TestWhatMayPassIsRepeatedWithItsWholeBody(t *testing.T) {
	for name, fault := range map[string]func(*http.Request) (*http.Response, error){
		"408": status(408), "429 without a time": status(429), "500": status(500), "502": status(502), "503": status(503), "504": status(504),
		"reset": broken(syscall.ECONNRESET), "eof": broken(io.EOF), "cut": broken(io.ErrUnexpectedEOF),
	} {
		t.Run(name, func(t *testing.T) {
			clock := &fakeClock{}
			s := &script{steps: []func(*http.Request) (*http.Response, error){fault, status(201)}}
			resp, err := send(t, s, Options{Clock: clock.clock()}, newRequest(t, t.Context(), http.MethodPut, "body"))
			if err != nil || resp.StatusCode != 201 {
				t.Fatalf("got %v, %v", resp, err)
			}
			if d := cmp.Diff([]string{"body", "body"}, s.bodies); d != "" {
				t.Error(d)
			}
			if len(clock.slept) != 1 || clock.slept[0] <= 0 {
				t.Errorf("waited %v, want once", clock.slept)
			}
		})
	}
}

func TestWhatWouldBeTheSameAgainIsNotRepeated(t *testing.T) {
	unopenable := func(r *http.Request) *http.Request { r.GetBody = nil; return r }
	for name, tc := range map[string]struct {
		fault func(*http.Request) (*http.Response, error)
		req   func(*http.Request) *http.Request
	}{
		"404":                          {fault: status(404)},
		"401":                          {fault: status(401)},
		"body that cannot be reopened": {fault: status(503), req: unopenable},
		"once and 503":                 {fault: status(503), req: func(r *http.Request) *http.Request { return r.WithContext(Once(r.Context())) }},
		"once and a lost answer":       {fault: broken(io.EOF), req: func(r *http.Request) *http.Request { return r.WithContext(Once(r.Context())) }},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{steps: []func(*http.Request) (*http.Response, error){tc.fault}}
			req := newRequest(t, t.Context(), http.MethodPut, "body")
			if tc.req != nil {
				req = tc.req(req)
			}
			_, _ = send(t, s, Options{Clock: (&fakeClock{}).clock()}, req)
			if len(s.bodies) != 1 {
				t.Errorf("sent %d times, want once", len(s.bodies))
			}
		})
	}
}

func TestOnceIsRepeatedAfter429(t *testing.T) {
	s := &script{steps: []func(*http.Request) (*http.Response, error){status(429), status(201)}}
	req := newRequest(t, Once(t.Context()), http.MethodPut, "body")
	if resp, err := send(t, s, Options{Clock: (&fakeClock{}).clock()}, req); err != nil || resp.StatusCode != 201 {
		t.Fatalf("got %v, %v", resp, err)
	}
}

func TestAttemptsAreBounded(t *testing.T) {
	always := &script{}
	for range 20 {
		always.steps = append(always.steps, status(502))
	}
	resp, err := send(t, always, Options{Clock: (&fakeClock{}).clock()}, newRequest(t, t.Context(), http.MethodGet, ""))
	if err != nil || resp.StatusCode != 502 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if len(always.bodies) != DefaultAttempts {
		t.Errorf("sent %d times, want %d", len(always.bodies), DefaultAttempts)
	}
}

func TestCancelledRequestIsNotRepeated(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := &script{steps: []func(*http.Request) (*http.Response, error){func(req *http.Request) (*http.Response, error) {
		cancel()
		return nil, io.EOF
	}}}
	_, err := send(t, s, Options{Clock: (&fakeClock{}).clock()}, newRequest(t, ctx, http.MethodGet, ""))
	if err == nil || len(s.bodies) != 1 {
		t.Errorf("sent %d times, %v", len(s.bodies), err)
	}
}

func TestSlotIsHeldUntilTheBodyIsClosed(t *testing.T) {
	s := &slots{max: 2, limit: 2}
	for range 2 {
		if err := s.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("third slot of two: %v", err)
	}
	s.release()
	if err := s.acquire(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestLimitHoldsUnderLoad(t *testing.T) {
	const most, all = 3, 20
	var now, peak atomic.Int64
	gate := make(chan struct{})
	l := &limiting{limits: limits{max: most}, next: roundTripper(func(req *http.Request) (*http.Response, error) {
		n := now.Add(1)
		for p := peak.Load(); n > p && !peak.CompareAndSwap(p, n); p = peak.Load() {
		}
		<-gate
		now.Add(-1)
		return answer(req, 200, "x"), nil
	})}
	var wg sync.WaitGroup
	for range all {
		wg.Go(func() {
			resp, err := l.RoundTrip(newRequest(t, t.Context(), http.MethodGet, ""))
			if err != nil {
				t.Error(err)
				return
			}
			_ = resp.Body.Close()
		})
	}
	for l.limits.of("reg.example").queued() < all-most {
		runtime.Gosched()
	}
	close(gate)
	wg.Wait()
	if peak.Load() != most {
		t.Errorf("%d requests at once, want %d", peak.Load(), most)
	}
}

func (s *slots) queued() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.waiting)
}

func TestKindsOfRequests(t *testing.T) {
	for url, want := range map[string]string{
		"https://h/v2/a/b/manifests/1":              KindManifests,
		"https://h/v2/a/blobs/sha256:aa":            KindBlobs,
		"https://h/v2/a/blobs/uploads/?mount=x":     KindUploads,
		"https://h/v2/a/tags/list":                  KindTags,
		"https://h/v2/a/referrers/sha256:aa":        KindReferrers,
		"https://auth/token?service=s&scope=repo":   KindToken,
		"https://cdn/store/manifests/x?signature=1": KindOther,
		"https://h/v2/":                             KindOther,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := kindOf(req); got != want {
			t.Errorf("%s: %s, want %s", url, got, want)
		}
	}
}

func TestSleepWithoutAClockStillMakesTimePass(t *testing.T) {
	var slept []time.Duration
	o := Options{Clock: Clock{Sleep: func(_ context.Context, d time.Duration) error { slept = append(slept, d); return nil }}}
	s := &script{steps: []func(*http.Request) (*http.Response, error){status(429, "Retry-After", "30"), status(200)}}
	if resp, err := send(t, s, o, newRequest(t, t.Context(), http.MethodGet, "")); err != nil || resp.StatusCode != 200 {
		t.Fatalf("got %v, %v", resp, err)
	}
	if d := cmp.Diff([]time.Duration{30 * time.Second}, slept); d != "" {
		t.Error(d)
	}
}

func TestUploadFedFromTheSameHostDoesNotWaitForItself(t *testing.T) {
	var chain *Chain
	chain = New(Options{MaxConcurrent: 1, Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		if req.Method == http.MethodGet {
			return answer(req, 200, "x"), nil
		}
		resp, err := chain.RoundTrip(newRequest(t, Feeding(t.Context()), http.MethodGet, ""))
		if err != nil {
			return nil, err
		}
		return answer(req, 201, ""), resp.Body.Close()
	})})
	if resp, err := chain.RoundTrip(newRequest(t, t.Context(), http.MethodPut, "x")); err != nil || resp.StatusCode != 201 {
		t.Fatalf("got %v, %v", resp, err)
	}
}

func TestSlotsHalveOn429AndGrowBack(t *testing.T) {
	s := &slots{max: 6, limit: 6}
	var got []int
	for _, status := range []int{429, 429, 429, 200, 404, 201, 200, 200, 200, 200} {
		s.learn(status)
		got = append(got, s.limit)
	}
	if d := cmp.Diff([]int{3, 1, 1, 2, 2, 3, 4, 5, 6, 6}, got); d != "" {
		t.Error(d)
	}
}

func TestPlainHTTPIsForLoopbackAndListedHosts(t *testing.T) {
	for host, allowed := range map[string]bool{
		"127.0.0.1:5000": true, "localhost": true, "[::1]:5000": true, "listed.example:80": true,
		"reg.example": false, "10.0.0.1:5000": false, "localhost.evil.example": false, "listed.example": false,
	} {
		t.Run(host, func(t *testing.T) {
			req := newRequest(t, t.Context(), http.MethodGet, "")
			req.URL = &url.URL{Scheme: "http", Host: host, Path: "/v2/"}
			s := &script{steps: []func(*http.Request) (*http.Response, error){status(200)}}
			_, err := send(t, s, Options{PlainHTTP: []string{"listed.example:80"}}, req)
			var refused *PlainHTTPError
			if errors.As(err, &refused) == allowed {
				t.Errorf("got %v", err)
			}
			if sent := len(s.bodies) > 0; sent != allowed {
				t.Errorf("sent: %v", sent)
			}
		})
	}
}

func TestCountsAreByHostMethodAndKindWithBytes(t *testing.T) {
	var records []Record
	s := &script{steps: []func(*http.Request) (*http.Response, error){
		func(req *http.Request) (*http.Response, error) { return answer(req, 201, "ok"), nil },
		status(503), status(200),
	}}
	chain := New(Options{Transport: s, Clock: (&fakeClock{}).clock(), OnRequest: func(r Record) { records = append(records, r) }})
	for _, req := range []*http.Request{newRequest(t, t.Context(), http.MethodPut, "12345"), newRequest(t, t.Context(), http.MethodGet, "")} {
		req.Header.Set("Authorization", "Bearer secret")
		resp, err := chain.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	want := []Count{
		{Host: "reg.example", Method: "GET", Kind: KindManifests, Requests: 2},
		{Host: "reg.example", Method: "PUT", Kind: KindManifests, Requests: 1, Sent: 5, Received: 2},
	}
	if d := cmp.Diff(want, chain.Counter.Counts()); d != "" {
		t.Error(d)
	}
	url := "https://reg.example/v2/a/manifests/1"
	if d := cmp.Diff([]Record{
		{Method: "PUT", Host: "reg.example", URL: url, Kind: KindManifests, Auth: "Bearer", Status: 201},
		{Method: "GET", Host: "reg.example", URL: url, Kind: KindManifests, Auth: "Bearer", Status: 503},
		{Method: "GET", Host: "reg.example", URL: url, Kind: KindManifests, Auth: "Bearer", Status: 200},
	}, records); d != "" {
		t.Error(d)
	}
}

func TestLogNeverHasSecrets(t *testing.T) {
	var buf bytes.Buffer
	log := slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug}))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"https://user:hunter2@cdn.example/b?X-Amz-Signature=hunter2&digest=sha256:aa&_state=hunter2&token=hunter2#hunter2", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Basic hunter2")
	req.Header.Set("Cookie", "hunter2")
	if _, err := send(t, &script{steps: []func(*http.Request) (*http.Response, error){status(200)}}, Options{Log: log}, req); err != nil {
		t.Fatal(err)
	}
	if got := buf.String(); strings.Contains(got, "hunter2") || !strings.Contains(got, "digest=sha256:aa") || !strings.Contains(got, "status=200") {
		t.Errorf("log line: %s", got)
	}
}

func TestStalledAnswerEndsWithAnIdleError(t *testing.T) {
	stalled := roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, req.Context().Err()
	})
	_, err := (&idle{next: stalled, after: time.Millisecond}).RoundTrip(newRequest(t, t.Context(), http.MethodGet, ""))
	var idle *IdleError
	if !errors.As(err, &idle) || !Broken(err) || idle.During != "waiting for an answer" {
		t.Errorf("got %v, want an IdleError that is retried", err)
	}
}

// TestSlowCallerIsNotAnIdleHost: neither a source that gives no bytes yet, nor a
// reader that takes none.
func TestSlowCallerIsNotAnIdleHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const after = 20 * time.Millisecond
		pause := func() { <-time.After(5 * after) }
		echo := roundTripper(func(req *http.Request) (*http.Response, error) {
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return nil, err
			}
			resp := answer(req, 200, "")
			body := readerFunc(func(p []byte) (int, error) { return copy(p, "x"), context.Cause(req.Context()) })
			resp.Body, resp.ContentLength = io.NopCloser(body), -1
			return resp, nil
		})
		req := newRequest(t, t.Context(), http.MethodPut, "x")
		slow := true
		req.Body = io.NopCloser(readerFunc(func(p []byte) (int, error) {
			if slow {
				slow = false
				pause()
				return copy(p, "x"), nil
			}
			return 0, io.EOF
		}))
		resp, err := (&idle{next: echo, after: after}).RoundTrip(req)
		if err != nil {
			t.Fatalf("a source that gives no bytes yet: %v", err)
		}
		for range 2 {
			if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
				t.Errorf("a reader that takes none: %v", err)
			}
			pause()
		}
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestStalledBodyEndsWithAnIdleError(t *testing.T) {
	stalled := roundTripper(func(req *http.Request) (*http.Response, error) {
		r, w := io.Pipe()
		context.AfterFunc(req.Context(), func() { w.CloseWithError(req.Context().Err()) })
		resp := answer(req, 200, "")
		resp.Body, resp.ContentLength = r, 10
		return resp, nil
	})
	resp, err := (&idle{next: stalled, after: time.Millisecond}).RoundTrip(newRequest(t, t.Context(), http.MethodGet, ""))
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.ReadAll(resp.Body)
	var idle *IdleError
	if !errors.As(err, &idle) || idle.During != "reading the answer, 0 bytes have come" {
		t.Errorf("got %v, want an IdleError", err)
	}
}
