package registrytest

import (
	"testing"

	"github.com/manifold-oci/manifold/internal/localregistry"
)

// Distribution starts CNCF Distribution v3 in this process, with deletion on.
func Distribution(t testing.TB, opts ...Option) *Registry {
	t.Helper()
	dir := t.TempDir()
	s, err := localregistry.Start(t.Context(), localregistry.Options{Address: "127.0.0.1:0", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r := newRegistry(t, "distribution-3", "http://"+s.Addr(), Features{
		TagDelete: true, Mounts: true, Resumes: true, ChecksChildren: true, ChecksBlobs: true,
	}, opts)
	r.Dir = dir
	return r
}
