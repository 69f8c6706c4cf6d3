package registrytest

import (
	"io"
	"net/http"
	"sync"
	"testing"
)

// Always makes a fault happen every time; see Fault.Times.
const Always = -1

// Cut says where a connection ends.
type Cut int

const (
	// CutBefore ends it before the registry sees the request.
	CutBefore Cut = iota + 1
	// CutRequest ends both connections after Fault.After bytes of the request's
	// body; the registry has received those.
	CutRequest
	// CutAnswer lets the registry do its work and ends the connection after
	// Fault.After bytes of the answer's body.
	CutAnswer
	// LoseAnswer lets the registry do its work and sends nothing of its answer.
	LoseAnswer
)

// Fault is something that goes wrong with certain requests. The first fault, in
// the order of the calls to [Registry.Fault], that matches and has times left
// happens; later ones are not looked at. A test fails when a fault has times
// left at its end.
type Fault struct {
	// Method matches exactly; Path and Query (raw) are regular expressions.
	// Empty ones match everything.
	Method, Path, Query string
	// Skip lets that many matching requests pass first.
	Skip int
	// Times it happens: once for 0, Always for every time, at least once.
	Times int
	// Optional faults may not happen.
	Optional bool
	// BeforeAuth looks at requests before credentials are checked.
	BeforeAuth bool

	// Hold delays the request until the channel is closed or the client gives
	// up. It combines with the others.
	Hold <-chan struct{}
	// Edit changes the request before the registry sees it.
	Edit func(r *http.Request)
	// Status answers without asking the registry, with Header and Body.
	Status int
	Header http.Header
	Body   string
	// Cut ends the connection; After counts bytes for CutRequest and CutAnswer.
	Cut   Cut
	After int64
	// Stall holds the connection open where Cut would end it, and nothing moves
	// on it any more, until the client gives up or the test ends. A request that
	// stalls in its body does not get to the registry.
	Stall bool
	// Rewrite changes the registry's answer.
	Rewrite Rewrite
}

// Rule is a fault in force.
type Rule struct {
	fault   Fault
	over    <-chan struct{} // the test
	reached chan struct{}

	mu      sync.Mutex
	skipped int
	hits    int
}

// Fault puts a fault in force.
func (r *Registry) Fault(f Fault) *Rule {
	if f.BeforeAuth {
		return r.early.add(f)
	}
	return r.faults.add(f)
}

// Hits is how often the fault happened so far.
func (rule *Rule) Hits() int {
	rule.mu.Lock()
	defer rule.mu.Unlock()
	return rule.hits
}

// Reached is closed when the fault happens for the first time, before it holds
// the request.
func (rule *Rule) Reached() <-chan struct{} { return rule.reached }

// Arrived changes nothing of the first request that matches. It closes the
// channel when bytes of its body have gone on to the registry.
func (r *Registry) Arrived(method, path string) <-chan struct{} {
	c := make(chan struct{})
	r.Fault(Fault{Method: method, Path: path, Edit: func(q *http.Request) {
		q.Body = &arriving{ReadCloser: q.Body, arrived: sync.OnceFunc(func() { close(c) })}
	}})
	return c
}

type arriving struct {
	io.ReadCloser
	arrived func()
}

func (b *arriving) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.arrived()
	}
	return n, err
}

func (rule *Rule) times() int {
	if rule.fault.Times == 0 {
		return 1
	}
	return rule.fault.Times
}

// take reports whether the fault happens to a request, and counts it.
func (rule *Rule) take(q *http.Request) bool {
	f := rule.fault
	if !matches(f.Method, f.Path, f.Query, q.Method, q.URL.Path, q.URL.RawQuery) {
		return false
	}
	rule.mu.Lock()
	defer rule.mu.Unlock()
	if rule.skipped < f.Skip {
		rule.skipped++
		return false
	}
	if rule.times() != Always && rule.hits == rule.times() {
		return false
	}
	rule.hits++
	if rule.hits == 1 {
		close(rule.reached)
	}
	return true
}

// missing is how many times the fault still had to happen.
func (rule *Rule) missing() int {
	switch hits := rule.Hits(); {
	case rule.fault.Optional:
		return 0
	case rule.times() == Always:
		return max(0, 1-hits)
	default:
		return rule.times() - hits
	}
}

// faults are the rules at one point of the chain.
type faults struct {
	t     testing.TB
	mu    sync.Mutex
	rules []*Rule
}

func (fs *faults) add(f Fault) *Rule {
	over := make(chan struct{})
	fs.t.Cleanup(func() { close(over) })
	r := &Rule{fault: f, over: over, reached: make(chan struct{})}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.rules = append(fs.rules, r)
	return r
}

func (fs *faults) match(q *http.Request) *Rule {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, r := range fs.rules {
		if r.take(q) {
			return r
		}
	}
	return nil
}

func (fs *faults) check() {
	fs.t.Helper()
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for _, r := range fs.rules {
		if n := r.missing(); n > 0 {
			fs.t.Errorf("fault did not happen (%d of %d times): %s %s", r.Hits(), r.Hits()+n, r.fault.Method, r.fault.Path)
		}
	}
}

func (fs *faults) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rule := fs.match(r)
		if rule == nil {
			next.ServeHTTP(w, r)
			return
		}
		rule.happen(next, w, r)
	})
}

func (rule *Rule) happen(next http.Handler, w http.ResponseWriter, r *http.Request) {
	f := rule.fault
	if f.Hold != nil {
		select {
		case <-f.Hold:
		case <-r.Context().Done():
		}
	}
	if f.Edit != nil {
		f.Edit(r)
	}
	switch {
	case f.Cut != 0:
		f.cut(next, w, r)
		if f.Stall {
			rule.stall(r)
		}
		closeConnection(w)
	case f.Status != 0:
		// Read first, as a client may not look for an answer while it sends.
		_, _ = io.Copy(io.Discard, r.Body)
		(&Answer{Status: f.Status, Header: f.headers(), Body: []byte(f.Body)}).write(w, r)
	case f.Rewrite != nil:
		a := record(next, r)
		f.Rewrite(a)
		a.write(w, r)
	default:
		next.ServeHTTP(w, r)
	}
}

func (f Fault) headers() http.Header {
	if f.Header == nil {
		return http.Header{}
	}
	return f.Header.Clone()
}

// cut does what comes before the end of the connection.
func (f Fault) cut(next http.Handler, w http.ResponseWriter, r *http.Request) {
	switch f.Cut {
	case CutBefore:
	case CutRequest:
		if f.Stall {
			_, _ = io.CopyN(io.Discard, r.Body, f.After)
			break
		}
		r.Body = &cutBody{ReadCloser: r.Body, left: f.After}
		record(next, r)
	case CutAnswer:
		a := record(next, r)
		a.writeHeader(w, r)
		_, _ = w.Write(a.Body[:min(f.After, int64(len(a.Body)))])
		_ = http.NewResponseController(w).Flush()
	case LoseAnswer:
		record(next, r)
	}
}

// stall holds a request. That a client has gone is seen only once its body has
// been read.
func (rule *Rule) stall(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-rule.over:
	}
}
