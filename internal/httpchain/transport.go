package httpchain

import (
	"crypto/tls"
	"net/http"
	"slices"
)

// idleConnections per host are kept for reuse. http.Transport's default of two
// would close most connections of a parallel publish after each request.
const idleConnections = 16

// transports sends to hosts with and without verification of certificates.
type transports struct {
	verified, insecure http.RoundTripper
	hosts              []string
}

func newTransports(given http.RoundTripper, insecureHosts []string) http.RoundTripper {
	if given == nil {
		given = defaultTransport()
	}
	base, ok := given.(*http.Transport)
	if !ok || len(insecureHosts) == 0 {
		return given
	}
	lax := base.Clone()
	if lax.TLSClientConfig == nil {
		lax.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	lax.TLSClientConfig.InsecureSkipVerify = true
	return &transports{verified: given, insecure: lax, hosts: insecureHosts}
}

func defaultTransport() http.RoundTripper {
	base, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return http.DefaultTransport
	}
	t := base.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	return t
}

func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	if slices.Contains(t.hosts, req.URL.Host) {
		return t.insecure.RoundTrip(req)
	}
	return t.verified.RoundTrip(req)
}
