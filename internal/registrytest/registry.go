package registrytest

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"
)

// Registry is a running registry behind its proxy. It is stopped when the test
// ends.
type Registry struct {
	// Host is host:port as it stands in a reference.
	Host string
	// Kind is "distribution-3", "docker-2.8" or "referrers".
	Kind string
	// Features tell what the registry can do, for suites over all of them.
	Features Features
	// Username and Password are what BasicAuth or TokenAuth ask for.
	Username, Password string
	// Dir is the storage directory, empty for one in memory.
	Dir string

	t       testing.TB
	backend string // http://host:port of the registry itself
	client  *http.Client
	front   *httptest.Server
	log     *journal
	early   *faults // before auth
	faults  *faults
	quirks  *quirks
	tokens  *tokenServer
	forward *forwarder

	mu   sync.Mutex
	seen map[string]map[digest.Digest]bool // manifests put, by repository
}

// Features of a registry.
type Features struct {
	// Referrers: answers GET /v2/NAME/referrers/DIGEST.
	Referrers bool
	// TagDelete: DELETE of a tag removes the tag alone.
	TagDelete bool
	// Mounts: POST ?mount=&from= answers 201 for a blob that is there.
	Mounts bool
	// Resumes: keeps the bytes of an upload that was cut.
	Resumes bool
	// ChecksChildren: refuses an index whose children are absent.
	ChecksChildren bool
	// ChecksBlobs: refuses an image manifest whose blobs are absent.
	ChecksBlobs bool
}

// Option changes how a registry is set up.
type Option func(*config)

type config struct {
	tls   bool
	basic *basicAuth
	token *TokenOptions
}

// TLS makes the registry speak HTTPS with a certificate of its own; see
// [Registry.CA] and [Registry.Client].
func TLS() Option { return func(c *config) { c.tls = true } }

// BasicAuth asks for a user name and password.
func BasicAuth(username, password string) Option {
	return func(c *config) { c.basic = &basicAuth{username, password} }
}

// TokenAuth asks for a bearer token, issued by a token server of its own.
func TokenAuth(o TokenOptions) Option {
	return func(c *config) { c.token = &o }
}

// newRegistry puts the proxy in front of a backend.
func newRegistry(t testing.TB, kind, backend string, f Features, opts []Option) *Registry {
	t.Helper()
	var c config
	for _, o := range opts {
		o(&c)
	}
	r := &Registry{
		Kind: kind, Features: f,
		t: t, backend: backend,
		log: &journal{}, early: &faults{t: t}, faults: &faults{t: t}, quirks: &quirks{},
		seen: map[string]map[digest.Digest]bool{},
	}
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	r.client = &http.Client{Transport: transport}
	r.forward = newForwarder(backend, transport)
	r.listen(c, r.chain(c, r.forward))
	t.Cleanup(func() {
		r.early.check()
		r.faults.check()
	})
	return r
}

// chain puts the handlers before the registry in their order, innermost first.
func (r *Registry) chain(c config, registry http.Handler) http.Handler {
	h := r.faults.wrap(r.quirks.wrap(r.remember(registry)))
	switch {
	case c.basic != nil:
		r.Username, r.Password = c.basic.username, c.basic.password
		h = c.basic.wrap(h)
	case c.token != nil:
		r.Username, r.Password = c.token.Username, c.token.Password
		r.tokens = newTokenServer(r.t, *c.token)
		h = r.tokens.wrap(h)
	}
	return r.log.wrap(r.early.wrap(h))
}

func (r *Registry) listen(c config, h http.Handler) {
	r.front = newServer(r.t, h, c.tls)
	r.Host = r.front.Listener.Addr().String()
}

func newServer(t testing.TB, h http.Handler, tls bool) *httptest.Server {
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = discardLog()
	if tls {
		s.StartTLS()
	} else {
		s.Start()
	}
	t.Cleanup(func() {
		// Clients of the code under test may hold connections for ever.
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// remember notes which manifests were stored, for registries that keep no
// directory to look into.
func (r *Registry) remember(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p := parsePath(req.URL.Path)
		if req.Method != http.MethodPut || p.kind != "manifests" {
			next.ServeHTTP(w, req)
			return
		}
		a := record(next, req)
		if d := digest.Digest(a.Header.Get("Docker-Content-Digest")); a.Status == http.StatusCreated {
			r.noteManifest(p.repo, d)
		}
		a.write(w, req)
	})
}

func (r *Registry) noteManifest(repo string, d digest.Digest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen[repo] == nil {
		r.seen[repo] = map[digest.Digest]bool{}
	}
	r.seen[repo][d] = true
}

// Settle waits until the registry is through with everything that it has been
// asked, by clients that have gone away too. It must not be called from within a
// request.
func (r *Registry) Settle() { r.forward.settle() }

// URL is the registry's address with its scheme.
func (r *Registry) URL() string { return r.front.URL }

// Client speaks to the proxy and trusts its certificate. It sends no
// credentials and follows no redirects.
func (r *Registry) Client() *http.Client {
	c := *r.front.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// CA is the certificate of a registry with TLS, in PEM.
func (r *Registry) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.front.Certificate().Raw})
}

// Reference is HOST/repo:tag, or HOST/repo without a tag.
func (r *Registry) Reference(repo, tag string) string {
	if tag == "" {
		return r.Host + "/" + repo
	}
	return r.Host + "/" + repo + ":" + tag
}

// ctx lives as long as the test; a clean-up runs after the test's own context
// has ended, so that one is not used.
func (r *Registry) ctx() context.Context { return context.Background() }

// TB is the test that the registry was started for.
func (r *Registry) TB() testing.TB { return r.t }
