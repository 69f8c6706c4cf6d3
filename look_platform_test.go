package manifold_test

import (
	"path/filepath"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
)

// TestAtPlatformNamesADigest: of a tag in a registry, whether it names an index or
// one image, since it may move before it is read again.
func TestAtPlatformNamesADigest(t *testing.T) {
	r := registrytest.Distribution(t)
	image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	r.Push("app", "one", image)
	r.Push("app", "index", registrytest.Index(t, registrytest.IndexOptions{}, image))
	m := manifold.New(manifold.Options{})
	t.Cleanup(func() { _ = m.Close() })
	dir := filepath.Join(t.TempDir(), "app")
	local := ref.Location{Transport: ref.OCILayout, Path: dir, Tag: "1"}
	copied(t, m, manifold.CopyOptions{Source: location(t, r.Reference("app", "one")), Targets: []ref.Location{local}})
	byDigest := location(t, r.Host+"/app@"+image.Digest().String())
	for _, c := range []struct{ asked, want ref.Location }{
		{location(t, r.Reference("app", "index")), byDigest},
		{location(t, r.Reference("app", "one")), byDigest},
		{byDigest, byDigest},
		{local, local},
	} {
		got, err := m.AtPlatform(t.Context(), c.asked, oci.Platform{OS: "linux", Architecture: "amd64"})
		if err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.asked, got, err, c.want)
		}
	}
}
