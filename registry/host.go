package registry

import (
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/manifold-oci/manifold/ref"
)

// host is what is known about one host, learned once and shared by all its
// repositories.
type host struct {
	// name is the host of the API, with its port.
	name string
	gate gate

	mu     sync.Mutex
	scheme string
	// settled: the scheme has been seen to work, or the other one was tried.
	settled bool
	scopes  map[string]*scopes
	learned knowledge
}

// knowledge is how a host differs from the specification.
type knowledge struct {
	// noReferrers: the referrers API is not there.
	noReferrers bool
	// patch: a blob is taken by PATCH and an empty PUT, not by one PUT.
	patch bool
	// whole: a blob is not taken in pieces.
	whole bool
	// blindMount: a mount from the repository itself does not tell whether the
	// blob is there.
	blindMount bool
}

func (c *Client) host(name string) *host {
	name = apiHost(name)
	c.mu.Lock()
	defer c.mu.Unlock()
	h, ok := c.hosts[name]
	if !ok {
		h = &host{name: name, scopes: map[string]*scopes{}}
		h.scheme, h.settled = firstScheme(name, apiHosts(c.o.PlainHTTP), apiHosts(c.o.TryPlainHTTP))
		c.hosts[name] = h
	}
	return h
}

// firstScheme is the rule for plain HTTP: hosts that are listed get it;
// loopback is tried in plain HTTP first, or in TLS first on port 443, and the
// other way if that is not what it speaks; so is a host in try, in TLS first;
// every other host gets TLS only.
func firstScheme(name string, plain, try []string) (scheme string, settled bool) {
	switch {
	case slices.Contains(plain, name):
		return "http", true
	case !ref.IsLoopback(name) && slices.Contains(try, name):
		return "https", false
	case !ref.IsLoopback(name):
		return "https", true
	case strings.HasSuffix(name, ":443"):
		return "https", false
	}
	return "http", false
}

func (h *host) currentScheme() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.scheme
}

// switched reports whether a request that went out with scheme used should be
// sent again with the other one. It changes its mind once.
func (h *host) switched(used string, resp *http.Response, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.scheme != used {
		return true // somebody else found out meanwhile
	}
	if h.settled {
		return false
	}
	if !otherScheme(h.name, used, resp, err) {
		h.settled = err == nil
		return false
	}
	h.settled = true
	if h.scheme = "https"; used == "https" {
		h.scheme = "http"
	}
	return true
}

// otherScheme recognises an answer of a server that speaks the other scheme.
func otherScheme(name, used string, resp *http.Response, err error) bool {
	if used == "https" {
		return err != nil && strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
	}
	if err != nil {
		return strings.Contains(err.Error(), "malformed HTTP") || (noPort(name) && errors.Is(err, syscall.ECONNREFUSED))
	}
	return resp.StatusCode == http.StatusBadRequest && speaksTLS(peek(resp))
}

// speaksTLS knows how Go, nginx, Apache and envoy say it.
func speaksTLS(body string) bool {
	body = strings.ToLower(body)
	return strings.Contains(body, "http request to an https server") ||
		strings.Contains(body, "plain http request was sent to https port") ||
		strings.Contains(body, "speaking plain http to an ssl-enabled server port")
}

func noPort(name string) bool {
	_, _, err := net.SplitHostPort(name)
	return err != nil
}

// know reads what was learned.
func (h *host) know() knowledge {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.learned
}

// learn changes it.
func (h *host) learn(f func(*knowledge)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f(&h.learned)
}
