// Package registry reads and writes one repository on one host, over the
// distribution API.
//
// Every verb documents its requests, because their number is part of the
// contract: nothing is asked twice and nothing is asked that was not needed. A
// [Client] is shared by all repositories of a run; with it they share
// connections, tokens, the limits of each host and what was learned about it.
//
// It refuses: content whose bytes are not what was asked for (digest, size,
// media type), manifests over oci.MaxManifestSize, plain HTTP to hosts that are
// not meant to have it, and answers that are not a registry's. It never takes
// "could not ask" for "is not there": only [Absent] errors are.
//
// Read registry.go first, then manifest_read.go, manifest_write.go and
// blob_copy.go; request.go is how one request is made, errors.go what comes back
// when it fails, credentials.go where logins come from.
package registry

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
)

// Options of a [Client]. The zero value is anonymous and works.
type Options struct {
	// Credentials returns the login for a host as references spell it
	// ("docker.io", "localhost:5000"). It is asked only when a host wants a
	// login. The zero Credential means anonymous. Nil is anonymous everywhere.
	Credentials func(ctx context.Context, host string) (Credential, error)
	// PlainHTTP are hosts, besides loopback, that are spoken to in plain HTTP,
	// with their port as references spell it.
	PlainHTTP []string
	// TryPlainHTTP are hosts that are spoken to in plain HTTP when they do not
	// answer in TLS, as loopback is.
	TryPlainHTTP []string
	// Insecure are hosts whose certificate is not verified.
	Insecure []string
	// Transport sends the requests; nil is a clone of http.DefaultTransport,
	// with its proxies and HTTP/2.
	Transport http.RoundTripper
	// MaxConcurrent bounds requests under way per host; 24 when zero. A host
	// begins with 10 and gets one more with each good answer.
	MaxConcurrent int
	// Mirrors are places to read from before a host itself, by its name in
	// references: "HOST" or "HOST/PREFIX", where the repository is below the
	// prefix. [Client.Source] reads there.
	Mirrors map[string][]string
	// MaxRate bounds the requests begun per second and host; 0 is no bound.
	MaxRate float64
	// ChunkSize cuts blobs that are larger into pieces of that many bytes, so
	// that each is sent with a fresh token and a broken one is all that is sent
	// again. Hosts that are known, or found out, to take other sizes or none get
	// those. 0 sends each blob at once.
	ChunkSize int64
	// TLS returns what a host wants of TLS besides the defaults: its own
	// authorities, a client certificate. A nil config is the default. It has no
	// effect on a Transport that is not an *http.Transport.
	TLS func(host string) (*tls.Config, error)
	// MaxWait bounds what one request waits in all for a host that asks for
	// patience; 2 minutes when zero. A host that asks for more ends the request
	// with a [*WaitError].
	MaxWait time.Duration
	// IdleTimeout bounds how long a request may go without a byte in either
	// direction; 5 minutes when zero, no bound when negative. One that is over
	// it is treated as a broken connection, and ends with an [*IdleError] when
	// it has been repeated in vain, once where nothing was answered. For a request
	// that hands over no content and reads no blob it is a minute at the most.
	IdleTimeout time.Duration
	// UserAgent is sent with every request to a registry; "manifold" when empty.
	UserAgent string
	// Report gets report.Wait events.
	Report report.Sink
	// Log gets one redacted line per request at debug level.
	Log *slog.Logger
	// OnRequest is called once for each request that went out, token requests
	// and repetitions included, when its answer has come. It must be safe for
	// concurrent use.
	OnRequest func(Request)
	// Sleep waits; nil waits for real. It returns early with the context's
	// error. Tests pass one that does not wait.
	Sleep func(context.Context, time.Duration) error
}

// Request is one request that went out, redacted.
type Request = httpchain.Record

// WaitError reports a host that asks for a longer wait than Options.MaxWait.
type WaitError = httpchain.WaitError

// IdleError reports a request on which nothing moved for Options.IdleTimeout.
type IdleError = httpchain.IdleError

// PlainHTTPError reports a request that would have left TLS for a host that is
// not listed in Options.PlainHTTP.
type PlainHTTPError = httpchain.PlainHTTPError

// Credential is a login. The zero value is anonymous.
type Credential struct {
	Username, Password string
	// RefreshToken is an identity token, exchanged for access tokens.
	RefreshToken string
	// AccessToken is sent as it is.
	AccessToken string
	// Source says where the login came from, or why there is none, in words
	// that can be printed.
	Source string
}

// anonymous reports whether there is nothing to log in with.
func (c Credential) anonymous() bool {
	return c.Username == "" && c.Password == "" && c.RefreshToken == "" && c.AccessToken == ""
}

// how says in what way a host is asked with c, without any secret.
func (c Credential) how() string {
	switch {
	case !c.anonymous() && c.Source == "":
		return "with a login"
	case !c.anonymous():
		return "with the login from " + c.Source
	case c.Source != "":
		return "anonymously: " + c.Source
	}
	return "anonymously"
}

// Client speaks to registries. It is safe for concurrent use.
type Client struct {
	o     Options
	chain *httpchain.Chain
	auth  *authorizer
	// open sends without any credentials.
	open *http.Client

	mu    sync.Mutex
	hosts map[string]*host
}

// NewClient returns a client. No request is made before a verb needs one.
func NewClient(o Options) *Client {
	if o.UserAgent == "" {
		o.UserAgent = "manifold"
	}
	c := &Client{o: o, hosts: map[string]*host{}}
	c.chain = httpchain.New(httpchain.Options{
		Transport: o.Transport, Insecure: apiHosts(o.Insecure), PlainHTTP: apiHosts(slices.Concat(o.PlainHTTP, o.TryPlainHTTP)),
		MaxConcurrent: o.MaxConcurrent, MaxRate: o.MaxRate, TLS: o.TLS, MaxWait: o.MaxWait, Idle: o.IdleTimeout, Clock: httpchain.Clock{Sleep: o.Sleep},
		Report: o.Report, Log: o.Log, OnRequest: o.OnRequest,
	})
	c.open = &http.Client{Transport: c.chain, CheckRedirect: redirected}
	c.auth = newAuthorizer(c.chain, o.Credentials)
	c.auth.log = o.Log
	return c
}

// Repository returns the repository that a reference is in; tag and digest are
// not looked at. No request is made.
func (c *Client) Repository(r ref.Reference) *Repository {
	return &Repository{client: c, host: c.host(r.Host), ref: r.Repo()}
}

// Repository is one repository on one host.
type Repository struct {
	client *Client
	host   *host
	ref    ref.Reference
}

// Name is the repository with its host: "ghcr.io/team/app".
func (r *Repository) Name() string { return r.ref.Name() }

// Writable says in advance that this repository will be written to, and from
// which other repositories of the host (paths, without the host) blobs may be
// mounted. Where a host wants tokens, the first one then covers all of it;
// else there is one for reading, one for writing, one for mounting. It returns
// r. No request is made.
func (r *Repository) Writable(from ...string) *Repository {
	r.scopes().write(from...)
	return r
}

// Stats is what went over the wire.
type Stats struct {
	// Counts by host, kind and method, sorted.
	Counts []Count
}

// Count is one line of [Stats].
type Count = httpchain.Count

// Stats returns what the client has sent and received so far.
func (c *Client) Stats() Stats { return Stats{Counts: c.chain.Counter.Counts()} }

// Requests sums up the requests by host.
func (s Stats) Requests() map[string]int {
	out := map[string]int{}
	for _, c := range s.Counts {
		out[c.Host] += int(c.Requests)
	}
	return out
}

// Bytes sums up the bytes of bodies by host.
func (s Stats) Bytes() (sent, received map[string]int64) {
	sent, received = map[string]int64{}, map[string]int64{}
	for _, c := range s.Counts {
		sent[c.Host] += c.Sent
		received[c.Host] += c.Received
	}
	return sent, received
}

// Docker Hub is named docker.io, its API answers elsewhere, and its logins are
// kept under a third name.
const (
	hubHost = "docker.io"
	hubAPI  = "registry-1.docker.io"
	hubKey  = "https://index.docker.io/v1/"
)

func apiHost(name string) string {
	if name == hubHost {
		return hubAPI
	}
	return name
}

func refHost(api string) string {
	if api == hubAPI {
		return hubHost
	}
	return api
}

func apiHosts(names []string) []string {
	out := slices.Clone(names)
	for i, n := range out {
		out[i] = apiHost(n)
	}
	return out
}
