package registrytest

import (
	"net/http"
	"testing"
)

// Other is a second host before the same content, as a store that a registry
// redirects blobs to. It asks for no credentials and logs what it is sent.
type Other struct {
	// Host is host:port.
	Host string
	log  *journal
}

// Elsewhere starts a second host before the content of r.
func Elsewhere(t testing.TB, r *Registry) *Other {
	t.Helper()
	o := &Other{log: &journal{}}
	s := newServer(t, o.log.wrap(newForwarder(r.backend, http.DefaultTransport)), false)
	o.Host = s.Listener.Addr().String()
	return o
}

// Log returns the requests so far.
func (o *Other) Log() []Request { return o.log.requests() }

// Count returns the number of requests that f selects.
func (o *Other) Count(f Filter) int { return len(find(o.Log(), f)) }
