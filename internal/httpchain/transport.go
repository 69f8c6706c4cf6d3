package httpchain

import (
	"crypto/tls"
	"maps"
	"net/http"
	"slices"
	"sync"
)

// idleConnections per host are kept for reuse. http.Transport's default of two
// would close most connections of a parallel publish after each request.
const idleConnections = 32

// transports sends to each host with the TLS that it wants: verified or not,
// with authorities and a client certificate of its own.
type transports struct {
	base     *http.Transport
	insecure []string
	config   func(host string) (*tls.Config, error)

	mu    sync.Mutex
	hosts map[string]*http.Transport
}

func newTransports(given http.RoundTripper, insecure []string, config func(string) (*tls.Config, error)) http.RoundTripper {
	if given == nil {
		given = defaultTransport()
	}
	base, ok := given.(*http.Transport)
	if !ok || len(insecure) == 0 && config == nil {
		return given
	}
	return &transports{base: base, insecure: insecure, config: config, hosts: map[string]*http.Transport{}}
}

func defaultTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := base.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	// Blobs are what travels: fewer, larger reads and writes than the 4 KiB default.
	t.ReadBufferSize, t.WriteBufferSize = 64<<10, 64<<10
	return t
}

func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != "https" {
		return t.base.RoundTrip(req)
	}
	rt, err := t.of(req.URL.Host)
	if err != nil {
		closeBody(req)
		return nil, err
	}
	return rt.RoundTrip(req)
}

// CloseIdleConnections closes those of all hosts that carry no request.
func (t *transports) CloseIdleConnections() {
	t.mu.Lock()
	own := maps.Clone(t.hosts)
	t.mu.Unlock() // every request wants it, and closing may take its time
	t.base.CloseIdleConnections()
	for _, rt := range own {
		rt.CloseIdleConnections()
	}
}

// of is the transport of a host. Those that want nothing of their own share
// one.
func (t *transports) of(host string) (*http.Transport, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if rt, ok := t.hosts[host]; ok {
		return rt, nil
	}
	c, err := t.tls(host)
	if err != nil {
		return nil, err
	}
	rt := t.base
	if c != nil {
		rt = t.base.Clone()
		rt.TLSClientConfig = c
		rt.ForceAttemptHTTP2 = true
	}
	t.hosts[host] = rt
	return rt, nil
}

// tls is what the host wants, nil for the defaults.
func (t *transports) tls(host string) (*tls.Config, error) {
	var c *tls.Config
	if t.config != nil {
		var err error
		if c, err = t.config(host); err != nil {
			return nil, err
		}
	}
	lax := slices.Contains(t.insecure, host)
	if c == nil && !lax {
		return nil, nil
	}
	if c == nil {
		c = t.base.TLSClientConfig
	}
	if c == nil {
		c = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	c = c.Clone()
	c.InsecureSkipVerify = c.InsecureSkipVerify || lax
	return c, nil
}
