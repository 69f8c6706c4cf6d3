package httpchain

import (
	"context"
	"io"
	"net/http"
	"sync"
)

// limiting lets a bounded number of requests per host be under way. A slot is
// held until the answer's body is closed. A host begins with FirstConcurrent
// slots; each success gives one more, up to the maximum, and 429 halves them.
type limiting struct {
	next   http.RoundTripper
	limits limits
}

func (t *limiting) RoundTrip(req *http.Request) (*http.Response, error) {
	l := t.limits.of(req.URL.Host)
	release := func() {}
	if !IsFeeding(req.Context()) {
		if err := l.acquire(req.Context()); err != nil {
			closeBody(req)
			return nil, err
		}
		release = sync.OnceFunc(l.release)
	}
	resp, err := t.next.RoundTrip(req)
	if err != nil {
		release()
		return nil, err
	}
	l.learn(resp.StatusCode)
	if bodiless(req, resp) {
		release()
		return resp, nil
	}
	resp.Body = &closing{ReadCloser: resp.Body, closed: release}
	return resp, nil
}

func bodiless(req *http.Request, resp *http.Response) bool {
	return req.Method == http.MethodHead || resp.ContentLength == 0 || resp.Body == http.NoBody
}

// closing calls closed after the body was closed.
type closing struct {
	io.ReadCloser
	closed func()
}

func (b *closing) Close() error {
	defer b.closed()
	return b.ReadCloser.Close()
}

// limits are the slots of each host.
type limits struct {
	max   int
	mu    sync.Mutex
	hosts map[string]*slots
}

func (l *limits) of(host string) *slots {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		l.hosts = map[string]*slots{}
	}
	s, ok := l.hosts[host]
	if !ok {
		s = &slots{max: l.max, limit: min(l.max, FirstConcurrent)}
		l.hosts[host] = s
	}
	return s
}

// slots is a semaphore whose size changes, first come first served.
type slots struct {
	max int

	mu      sync.Mutex
	limit   int
	used    int
	waiting []chan struct{}
}

func (s *slots) acquire(ctx context.Context) error {
	s.mu.Lock()
	if s.used < s.limit && len(s.waiting) == 0 {
		s.used++
		s.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		s.leave(turn)
		return context.Cause(ctx)
	}
}

// leave gives up waiting. The turn may have come in the meantime; then it is
// passed on.
func (s *slots) leave(turn chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return
		}
	}
	s.used--
	s.wake()
}

func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used--
	s.wake()
}

func (s *slots) learn(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case status == http.StatusTooManyRequests:
		s.limit = max(1, s.limit/2)
	case status < http.StatusBadRequest:
		s.limit = min(s.max, s.limit+1)
		s.wake()
	}
}

// wake hands free slots to those who wait; s.mu is held.
func (s *slots) wake() {
	for len(s.waiting) > 0 && s.used < s.limit {
		close(s.waiting[0])
		s.waiting = s.waiting[1:]
		s.used++
	}
}
