package registrytest

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"log"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
)

// Request is one request that reached the proxy, in order of arrival.
type Request struct {
	Method string
	// Path is as sent, Query without the question mark.
	Path, Query string
	// Host is the Host header.
	Host string
	// Status that was answered, 0 when the connection was cut before.
	Status int
	// Sent and Received count body bytes: of the request, as far as they were
	// read, and of the answer.
	Sent, Received int64
	// Auth is the scheme of the Authorization header, "" without one; the rest
	// is not kept.
	Auth string
	// Accept holds the header's lines as they came.
	Accept []string
	// ContentType, Range and Agent (User-Agent) are headers of the request.
	ContentType, Range, Agent string
	// BodyDigest is set for a PUT of a manifest.
	BodyDigest digest.Digest
}

// String is METHOD PATH STATUS.
func (r Request) String() string {
	path := r.Path
	if r.Query != "" {
		path += "?" + r.Query
	}
	return fmt.Sprintf("%s %s %d", r.Method, path, r.Status)
}

// Filter selects requests. Empty fields match everything.
type Filter struct {
	Method string
	// Path is a regular expression that matches anywhere in the path.
	Path string
	// Query is a regular expression for the raw query.
	Query string
	// Status matches exactly.
	Status int
	// Auth matches the scheme exactly.
	Auth string
}

// Match reports whether the filter selects a request.
func (f Filter) Match(r Request) bool {
	return matches(f.Method, f.Path, f.Query, r.Method, r.Path, r.Query) &&
		(f.Status == 0 || f.Status == r.Status) && (f.Auth == "" || f.Auth == r.Auth)
}

// matches compares a method exactly and path and query by regular expression.
func matches(method, pathRE, queryRE, m, p, q string) bool {
	return (method == "" || method == m) &&
		(pathRE == "" || regexp.MustCompile(pathRE).MatchString(p)) &&
		(queryRE == "" || regexp.MustCompile(queryRE).MatchString(q))
}

// Log returns the requests so far.
func (r *Registry) Log() []Request { return r.log.requests() }

// Find returns the requests that f selects.
func (r *Registry) Find(f Filter) []Request { return find(r.Log(), f) }

// Count returns the number of requests that f selects.
func (r *Registry) Count(f Filter) int { return len(r.Find(f)) }

// Transcript is the log as text, a line per request as Request.String writes
// it.
func (r *Registry) Transcript() string { return transcript(r.Log()) }

// Reset forgets the log. Faults and quirks stay.
func (r *Registry) Reset() { r.log.reset() }

func find(all []Request, f Filter) []Request {
	var out []Request
	for _, q := range all {
		if f.Match(q) {
			out = append(out, q)
		}
	}
	return out
}

func transcript(all []Request) string {
	var b strings.Builder
	for _, q := range all {
		b.WriteString(q.String() + "\n")
	}
	return b.String()
}

// journal is the log of one server.
type journal struct {
	mu  sync.Mutex
	all []*Request
}

func (j *journal) requests() []Request {
	j.mu.Lock()
	defer j.mu.Unlock()
	out := make([]Request, len(j.all))
	for i, r := range j.all {
		out[i] = *r
	}
	return out
}

func (j *journal) reset() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.all = nil
}

// wrap logs what goes through. Everything is noted before it goes out to the
// client, so that a client that has its answer finds it in the log.
func (j *journal) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := newRequest(r)
		e := &entry{journal: j, request: q}
		j.mu.Lock()
		j.all = append(j.all, q)
		j.mu.Unlock()
		if r.Method == http.MethodPut && parsePath(r.URL.Path).kind == "manifests" {
			e.hash = sha256.New()
		}
		r.Body = &loggedBody{ReadCloser: r.Body, entry: e}
		next.ServeHTTP(&loggedWriter{ResponseWriter: w, entry: e}, r)
	})
}

func newRequest(r *http.Request) *Request {
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return &Request{
		Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Host: r.Host,
		Auth: scheme, Accept: r.Header.Values("Accept"),
		ContentType: r.Header.Get("Content-Type"), Range: r.Header.Get("Range"), Agent: r.UserAgent(),
	}
}

// entry is a request in the log while it is under way.
type entry struct {
	journal *journal
	request *Request
	hash    hash.Hash // nil unless a manifest is put
}

func (e *entry) note(f func(q *Request)) {
	e.journal.mu.Lock()
	defer e.journal.mu.Unlock()
	f(e.request)
}

type loggedBody struct {
	io.ReadCloser
	*entry
}

func (b *loggedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.note(func(q *Request) {
		q.Sent += int64(n)
		if b.hash != nil {
			b.hash.Write(p[:n])
			q.BodyDigest = digest.NewDigest(digest.SHA256, b.hash)
		}
	})
	return n, err
}

type loggedWriter struct {
	http.ResponseWriter
	*entry
}

func (w *loggedWriter) WriteHeader(status int) {
	w.note(func(q *Request) { q.Status = status })
	w.ResponseWriter.WriteHeader(status)
}

func (w *loggedWriter) Write(p []byte) (int, error) {
	w.note(func(q *Request) {
		if q.Status == 0 {
			q.Status = http.StatusOK
		}
		q.Received += int64(len(p))
	})
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController flush and hijack.
func (w *loggedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func discardLog() *log.Logger { return log.New(io.Discard, "", 0) }
