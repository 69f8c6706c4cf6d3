package manifold_test

import (
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// TestMirrorIsNoProofOfWhatAHostHas: what a mirror has given is looked for at the
// target itself; what is not there is sent, and all of it is read back there.
func TestMirrorIsNoProofOfWhatAHostHas(t *testing.T) {
	app := registrytest.Index(t, registrytest.IndexOptions{},
		registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}), registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{}))
	publish := map[string]func(*manifold.Manifold, ref.Location, ref.Reference) error{
		"create": func(m *manifold.Manifold, source ref.Location, target ref.Reference) error {
			_, err := m.Create(t.Context(), manifold.CreateOptions{Sources: []ref.Location{source}, Targets: []ref.Reference{target}})
			return err
		},
		"copy": func(m *manifold.Manifold, source ref.Location, target ref.Reference) error {
			_, err := m.Copy(t.Context(), manifold.CopyOptions{Source: source, Targets: []ref.Location{target.AsLocation()}})
			return err
		},
	}
	for verb, run := range publish {
		for name, there := range map[string]int{"nothing is there": 0, "one child is there": 1, "all is there": 2} {
			t.Run(verb+" "+name, func(t *testing.T) {
				mirror, host := registrytest.Distribution(t), registrytest.Distribution(t)
				mirror.Push("cache/app", "1", app)
				for _, child := range app.Children[:there] {
					host.Push("app", "", child)
				}
				m := manifold.New(manifold.Options{Lag: 1, Registry: registry.Options{Mirrors: map[string][]string{host.Host: {mirror.Host + "/cache"}}}})
				repo := ref.Reference{Host: host.Host, Repository: "app"}
				if err := run(m, ref.Location{Reference: repo.WithTag("1")}, repo.WithTag("2")); err != nil {
					t.Fatalf("%v\n%s", err, host.Transcript())
				}
				for i, child := range app.Children {
					want := 1
					if i < there {
						want = 0
					}
					sent := host.Count(registrytest.Filter{Method: "PUT", Path: "/manifests/" + child.Digest().String()})
					read := host.Count(registrytest.Filter{Method: "GET", Path: "/manifests/" + child.Digest().String(), Status: 200})
					if sent != want || read < 1 {
						t.Errorf("%s: sent %d times, want %d, read back %d times\n%s", child.Digest(), sent, want, read, host.Transcript())
					}
				}
				if got, ok := host.Manifest("app", "2"); !ok || got.Digest != app.Digest() {
					t.Errorf("the tag names %s", got.Digest)
				}
				for _, b := range app.AllBlobs() {
					if !host.HasBlob("app", b.Digest) {
						t.Errorf("misses blob %s", b.Digest)
					}
				}
			})
		}
	}
}
