package httpchain

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/manifold-oci/manifold/ref"
)

// PlainHTTPError reports a request that would have gone in plain HTTP to a host
// that is neither loopback nor listed: a redirect, an upload location or a token
// server that leaves TLS.
type PlainHTTPError struct{ Host string }

func (e *PlainHTTPError) Error() string {
	return fmt.Sprintf("plain HTTP to %s is not allowed unless the host is listed for it", e.Host)
}

// SchemeError reports a redirect or a location that leaves HTTP.
type SchemeError struct{ Scheme string }

func (e *SchemeError) Error() string {
	return fmt.Sprintf("the registry points to a %q address, not to an https one", e.Scheme)
}

// plain refuses plain HTTP, hop by hop, and what is not HTTP at all.
type plain struct {
	next  http.RoundTripper
	hosts []string
}

func (t *plain) RoundTrip(req *http.Request) (*http.Response, error) {
	listed := ref.IsLoopback(req.URL.Host) || slices.Contains(t.hosts, req.URL.Host)
	if req.URL.Scheme == "https" || req.URL.Scheme == "http" && listed {
		return t.next.RoundTrip(req)
	}
	closeBody(req)
	if req.URL.Scheme != "http" {
		return nil, &SchemeError{Scheme: req.URL.Scheme}
	}
	return nil, &PlainHTTPError{Host: req.URL.Host}
}

// closeBody does what a round-tripper owes a request that it does not send.
func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}
