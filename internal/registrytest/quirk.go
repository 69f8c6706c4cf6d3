package registrytest

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"sync"

	"github.com/opencontainers/go-digest"
)

// Quirk is a habit of a registry or of a gateway before it: a handler around
// the registry.
type Quirk func(registry http.Handler) http.Handler

// Use gives the registry habits; the first one listed sees requests first.
func (r *Registry) Use(qs ...Quirk) { r.quirks.add(qs) }

type quirks struct {
	mu  sync.Mutex
	all []Quirk
	// chain is built once for the quirks in force, as some keep a state.
	base, chain http.Handler
}

func (q *quirks) add(qs []Quirk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.all = append(q.all, qs...)
	q.build()
}

func (q *quirks) build() {
	q.chain = q.base
	for _, quirk := range slices.Backward(q.all) {
		q.chain = quirk(q.chain)
	}
}

func (q *quirks) wrap(next http.Handler) http.Handler {
	q.base = next
	q.build()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		h := q.chain
		q.mu.Unlock()
		h.ServeHTTP(w, r)
	})
}

// Hide answers 405 UNSUPPORTED for a method (any when empty) on paths that
// match a regular expression.
func Hide(method, path string) Quirk {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !matches(method, path, "", r.Method, r.URL.Path, "") {
				next.ServeHTTP(w, r)
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			problem(http.StatusMethodNotAllowed, "UNSUPPORTED", "the operation is unsupported").write(w, r)
		})
	}
}

// OneHeaderLine drops all lines of a repeated request header but the first, as
// some gateways do.
func OneHeaderLine() Quirk {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			for name, lines := range r.Header {
				r.Header[name] = lines[:1]
			}
			next.ServeHTTP(w, r)
		})
	}
}

// Rewriting applies rewrites to every answer for a method (any when empty) and
// paths that match a regular expression.
func Rewriting(method, path string, rewrites ...Rewrite) Quirk {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !matches(method, path, "", r.Method, r.URL.Path, "") {
				next.ServeHTTP(w, r)
				return
			}
			a := record(next, r)
			if a.Status != 0 {
				for _, rewrite := range rewrites {
					rewrite(a)
				}
			}
			a.write(w, r)
		})
	}
}

// ImmutableTags refuses to move a tag: 400 TAG_INVALID for other bytes than the
// tag names already.
func ImmutableTags() Quirk {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if had := currentTag(next, r); had != "" {
				body, err := io.ReadAll(r.Body)
				if err == nil && digest.FromBytes(body) != had {
					problem(http.StatusBadRequest, "TAG_INVALID", "the tag is immutable and names other content").write(w, r)
					return
				}
				r.Body = readCloser(body)
			}
			next.ServeHTTP(w, r)
		})
	}
}

// currentTag is what a tag that is to be PUT names, empty for none and for
// other requests.
func currentTag(next http.Handler, r *http.Request) digest.Digest {
	if !putsTag(r) {
		return ""
	}
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength = http.MethodGet, http.NoBody, 0
	get.Header.Set("Accept", acceptAll)
	a := record(next, get)
	if a.Status != http.StatusOK {
		return ""
	}
	return digest.FromBytes(a.Body)
}

func putsTag(r *http.Request) bool {
	p := parsePath(r.URL.Path)
	return r.Method == http.MethodPut && p.kind == "manifests" && digest.Digest(p.ref).Validate() != nil
}

// Lag answers the first n reads of a manifest after each PUT of it with 404, by
// tag and by digest, as registries do that copy content between replicas.
func Lag(n int) Quirk {
	return func(next http.Handler) http.Handler {
		l := &lag{n: n, left: map[string]int{}}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			p := parsePath(r.URL.Path)
			switch {
			case p.kind != "manifests":
				next.ServeHTTP(w, r)
			case r.Method == http.MethodPut:
				a := record(next, r)
				if a.Status == http.StatusCreated {
					l.start(p.repo, p.ref, a.Header.Get("Docker-Content-Digest"))
				}
				a.write(w, r)
			case l.take(p.repo, p.ref):
				problem(http.StatusNotFound, "MANIFEST_UNKNOWN", "manifest unknown").write(w, r)
			default:
				next.ServeHTTP(w, r)
			}
		})
	}
}

type lag struct {
	n    int
	mu   sync.Mutex
	left map[string]int // by repository and reference
}

func (l *lag) start(repo string, refs ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, ref := range refs {
		l.left[repo+"/"+ref] = l.n
	}
}

func (l *lag) take(repo, ref string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := repo + "/" + ref
	if l.left[key] == 0 {
		return false
	}
	l.left[key]--
	return true
}

// RedirectTo answers GET and HEAD for paths that match a regular expression
// with 307 to the same path on another host ([Elsewhere]).
func RedirectTo(scheme, host, path string) Quirk {
	re := regexp.MustCompile(path)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			read := r.Method == http.MethodGet || r.Method == http.MethodHead
			if !read || !re.MatchString(r.URL.Path) {
				next.ServeHTTP(w, r)
				return
			}
			w.Header().Set("Location", scheme+"://"+host+r.URL.RequestURI())
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
	}
}
