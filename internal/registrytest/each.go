package registrytest

import "testing"

// Each runs f as a subtest over every kind of registry.
func Each(t *testing.T, f func(t *testing.T, r *Registry), opts ...Option) {
	t.Helper()
	kinds := []struct {
		name  string
		start func(testing.TB, ...Option) *Registry
	}{
		{"distribution-3", Distribution},
		{"docker-2.8", Docker28},
		{"referrers", WithReferrers},
	}
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) { f(t, k.start(t, opts...)) })
	}
}
