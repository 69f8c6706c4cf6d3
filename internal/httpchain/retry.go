package httpchain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/manifold-oci/manifold/report"
)

// Bounds of the wait before attempt n when the host does not say how long.
const (
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 15 * time.Second
)

// WaitError reports a host that asks for more patience than there is.
type WaitError struct {
	Host string
	// Wait is what the host asks for, Budget what a request may wait in all.
	Wait, Budget time.Duration
	// Told is what the host said, "99999999999 seconds", if Wait cannot hold it.
	Told string
}

func (e *WaitError) Error() string {
	wait := cmp.Or(e.Told, e.Wait.Round(time.Second).String())
	return fmt.Sprintf("%s asks to wait %s, the limit is %s", e.Host, wait, e.Budget)
}

// Backoff returns the wait before the next attempt after n failed ones: doubled
// each time, and spread so that workers do not come back in step.
func Backoff(n int) time.Duration {
	d := min(maxBackoff, firstBackoff<<min(max(0, n-1), 10))
	return d/2 + rand.N(d)
}

// retrying repeats requests that failed for a reason that may pass: 408, 429,
// 500, 502, 503, 504, and connections that broke off. Only requests whose body
// is empty or can be opened again are repeated, and those marked [Once] only
// after 429. Retry-After is obeyed; when a host sends it, every request to that
// host waits, since all of them would be counted against the same limit. Silence
// for the idle time is a long wait already: it is answered by one repetition, and
// by none while the host is mute.
type retrying struct {
	next     http.RoundTripper
	attempts int
	budget   time.Duration
	clock    Clock
	report   report.Sink

	mu    sync.Mutex
	gates map[string]gate
	mute  map[string]bool // host: has let a repeated request go unanswered, and answered none since
}

func (t *retrying) RoundTrip(req *http.Request) (*http.Response, error) {
	p := patience{host: req.URL.Host, budget: t.budget, clock: t.clock}
	for n := 1; ; n++ {
		if err := t.pass(req.Context(), &p); err != nil {
			closeBody(req)
			return nil, err
		}
		attempt, err := reopen(req, n)
		if err != nil {
			return nil, err
		}
		resp, err := t.next.RoundTrip(attempt)
		delay, again := t.decide(req, resp, err, n)
		if t.silent(&p, resp, err) {
			again = false
		}
		if !again {
			return resp, err
		}
		discard(resp)
		if err := p.spend(delay, toldBy(resp, delay)); err != nil {
			return nil, err
		}
		t.report.Send(report.Event{Kind: report.Wait, State: report.Started, Target: p.host, Delay: delay, Text: why(resp, err)})
		if err := p.sleep(req.Context(), delay); err != nil {
			return nil, err
		}
	}
}

// decide says whether to send a request again and after how long. It closes the
// host's gate when the host asked for that.
func (t *retrying) decide(req *http.Request, resp *http.Response, err error, n int) (time.Duration, bool) {
	asked, told := t.obey(req.URL.Host, resp)
	if !repeatable(req, resp, err) || n >= t.attempts {
		return 0, false
	}
	if told {
		return asked, true
	}
	return Backoff(n), true
}

// silent reports whether a host is not to be asked again, having said nothing to
// this request before, or to another.
func (t *retrying) silent(p *patience, resp *http.Response, err error) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if resp != nil {
		delete(t.mute, p.host)
		return false
	}
	var idle *IdleError
	if !errors.As(err, &idle) {
		return false
	}
	p.silences++
	if p.silences > 1 {
		if t.mute == nil {
			t.mute = map[string]bool{}
		}
		t.mute[p.host] = true
	}
	return t.mute[p.host]
}

// obey closes the gate of a host that names a time.
func (t *retrying) obey(host string, resp *http.Response) (time.Duration, bool) {
	if resp == nil || (resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable) {
		return 0, false
	}
	now := t.clock.Now()
	d, ok := RetryAfter(resp.Header, now)
	if !ok {
		return 0, false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gates == nil {
		t.gates = map[string]gate{}
	}
	if until := now.Add(d); until.After(t.gates[host].until) {
		t.gates[host] = gate{until: until, told: toldBy(resp, d)}
	}
	return d, true
}

// gate is closed until the time that a host named.
type gate struct {
	until time.Time
	told  string // in the host's words, if no duration can hold it
}

// toldBy are the host's words for a wait that no duration can hold.
func toldBy(resp *http.Response, d time.Duration) string {
	if d < longest {
		return ""
	}
	return told(resp.Header)
}

// pass waits while the host's gate is closed.
func (t *retrying) pass(ctx context.Context, p *patience) error {
	for {
		t.mu.Lock()
		closed := t.gates[p.host]
		t.mu.Unlock()
		left := closed.until.Sub(t.clock.Now())
		if left <= 0 {
			return nil
		}
		if err := p.spend(left, closed.told); err != nil {
			return err
		}
		if err := p.sleep(ctx, left); err != nil {
			return err
		}
	}
}

// patience is what one request may still wait.
type patience struct {
	host          string
	budget, spent time.Duration
	silences      int
	clock         Clock
}

// spend takes a wait off the budget before it begins.
func (p *patience) spend(d time.Duration, told string) error {
	if d > p.budget-p.spent {
		return &WaitError{Host: p.host, Wait: d, Budget: p.budget, Told: told}
	}
	p.spent += d
	return nil
}

func (p *patience) sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	return p.clock.Sleep(ctx, d)
}

// reopen returns the request for attempt n, with a new body after the first:
// the transport may still be reading the old one.
func reopen(req *http.Request, n int) (*http.Request, error) {
	if n == 1 || req.GetBody == nil {
		return req, nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	again := req.WithContext(req.Context())
	again.Body = body
	return again, nil
}

func repeatable(req *http.Request, resp *http.Response, err error) bool {
	if req.Context().Err() != nil {
		return false
	}
	if req.Body != nil && req.Body != http.NoBody && req.GetBody == nil {
		return false
	}
	if isOnce(req.Context()) {
		return resp != nil && resp.StatusCode == http.StatusTooManyRequests
	}
	if err != nil {
		return Broken(err)
	}
	return resp.StatusCode == http.StatusTooManyRequests || Transient(resp.StatusCode)
}

// Transient reports the statuses after which nobody knows whether a request was
// carried out, and the same request may succeed.
func Transient(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway,
		http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// Broken reports whether a connection was there and broke off. A host that
// cannot be reached or verified is not retried: it would be the same again.
func Broken(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return false
	}
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ECONNABORTED, net.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	var idle *IdleError
	return errors.As(err, &idle) || isHTTPClosed(err)
}

// isHTTPClosed recognises errors of net/http that have no type.
func isHTTPClosed(err error) bool {
	for _, text := range []string{"server closed idle connection", "http2: client connection lost", "http2: server sent GOAWAY", "stream error: "} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}

func why(resp *http.Response, err error) string {
	if err != nil {
		return err.Error()
	}
	return resp.Status
}

// drained is how much of an unwanted body is read to keep its connection.
const drained = 64 << 10

func discard(resp *http.Response) {
	if resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, drained)
	_ = resp.Body.Close()
}
