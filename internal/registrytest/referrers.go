package registrytest

import (
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// WithReferrers starts go-containerregistry's registry in memory, with the
// referrers API.
func WithReferrers(t testing.TB, opts ...Option) *Registry {
	t.Helper()
	h := registry.New(registry.WithReferrersSupport(true), registry.Logger(discardLog()))
	s := newServer(t, h, false)
	return newRegistry(t, "referrers", s.URL, Features{
		Referrers: true, TagDelete: true, ChecksChildren: true,
	}, opts)
}
