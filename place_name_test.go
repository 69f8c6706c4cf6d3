package manifold_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
)

// TestPathsThatReadAsTags: what a run has open it finds again, whatever its path;
// a plan for another run is refused rather than read from another place.
func TestPathsThatReadAsTags(t *testing.T) {
	image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	from := registrytest.Distribution(t)
	from.Push("src", "1", image)
	dir := filepath.Join(t.TempDir(), "release:2")
	m := manifold.New(manifold.Options{})
	t.Cleanup(func() { _ = m.Close() })
	plain := filepath.Join(t.TempDir(), "app")
	copied(t, m, manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{{Transport: ref.OCILayout, Path: plain, Tag: "1"}}})
	if err := os.Rename(plain, dir); err != nil {
		t.Fatal(err)
	}
	var warned []string
	m = manifold.New(manifold.Options{JournalDir: t.TempDir(), Report: func(e report.Event) {
		if e.Kind == report.Warning {
			warned = append(warned, e.Text)
		}
	}})
	t.Cleanup(func() { _ = m.Close() })
	for _, tag := range []string{"1", ""} {
		to := registrytest.Distribution(t)
		o := manifold.CopyOptions{Source: ref.Location{Transport: ref.OCILayout, Path: dir, Tag: tag}, Targets: []ref.Location{location(t, to.Reference("dst", "1"))}}
		o.DryRun = true
		var place *manifold.PlaceError
		if _, err := m.Copy(t.Context(), o); !errors.As(err, &place) || place.Place != "oci:"+dir {
			t.Errorf("a plan to be saved: %v", err)
		}
		o.DryRun = false
		warned = nil
		copied(t, m, o)
		same(t, to, "dst", image)
		if len(warned) != 1 || !strings.Contains(warned[0], "cannot be taken up") {
			t.Errorf("warned of %q", warned)
		}
	}
}
