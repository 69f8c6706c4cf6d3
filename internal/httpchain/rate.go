package httpchain

import (
	"net/http"
	"sync"
	"time"
)

// slowest is how far apart requests are at the most. A smaller rate could not be
// held as a duration, and would be no limit then.
const slowest = time.Hour

// rating begins no more requests per second than the host is to get, evenly
// spread: a burst is what limits on the other side count.
type rating struct {
	next  http.RoundTripper
	every time.Duration
	clock Clock

	mu   sync.Mutex
	free map[string]time.Time // host: when the next request may begin
}

func rated(next http.RoundTripper, perSecond float64, clock Clock) http.RoundTripper {
	if !(perSecond > 0) { // nor NaN
		return next
	}
	return &rating{
		next: next, every: time.Duration(min(float64(slowest), float64(time.Second)/perSecond)), clock: clock, free: map[string]time.Time{},
	}
}

func (t *rating) RoundTrip(req *http.Request) (*http.Response, error) {
	if wait := t.take(req.URL.Host); wait > 0 {
		if err := t.clock.Sleep(req.Context(), wait); err != nil {
			closeBody(req)
			return nil, err
		}
	}
	return t.next.RoundTrip(req)
}

// take takes the host's next turn and returns how long that is away.
func (t *rating) take(host string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	turn := t.free[host]
	if turn.Before(now) {
		turn = now
	}
	t.free[host] = turn.Add(t.every)
	return turn.Sub(now)
}
