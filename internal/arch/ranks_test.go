package arch

import (
	"slices"
	"strings"
	"testing"
)

// ranks of the rooms: data walks from low to high, imports point from high to
// low. A room imports only rooms of lower rank.
var ranks = map[string]int{
	"internal/redact": -1, "internal/printable": -1, // every room quotes addresses and names

	"ref": 0, "report": 0, "internal/startup": 0, "internal/clock": 0, // none imports another room; every other one may speak of all

	"oci": 1, "internal/httpchain": 1, "internal/journal": 1,

	"registry": 2, "layout": 2, "index": 2, "plan": 2, "internal/binarycheck": 2,

	"build": 3, "publish": 3, "audit": 3,

	"internal/buildkit": 4, "apply": 4,

	".": 5, "internal/localregistry": 5, "internal/dockermanifest": 5,

	"internal/cli/render": 6, "internal/spec": 6, "internal/cli": 7,

	"cmd/manifold": 8,
}

// testKit is imported by tests only, and imports what it likes.
const testKit = "internal/registrytest"

// ranked reports whether a room has to have a rank: examples are programs of
// their own.
func ranked(room string) bool {
	return room != testKit && room != "internal/arch" && !strings.HasPrefix(room, "examples/")
}

func TestPackagesImportOnlyLowerRanks(t *testing.T) {
	g := load(t)
	for _, p := range g.own() {
		rank, known := ranks[p.room()]
		if !ranked(p.room()) {
			continue
		}
		if !known {
			t.Errorf("%s has no rank; add it to the table", p.room())
			continue
		}
		for _, path := range p.Imports {
			if !inModule(path) {
				continue
			}
			other := g[path].room()
			if r, known := ranks[other]; known && r >= rank {
				t.Errorf("%s (rank %d) imports %s (rank %d); only lower ranks may be imported", p.room(), rank, other, r)
			}
		}
	}
}

func TestTestKitIsImportedByTestsOnly(t *testing.T) {
	for _, p := range load(t).own() {
		if slices.Contains(p.Imports, module+"/"+testKit) {
			t.Errorf("%s imports %s outside its tests", p.room(), testKit)
		}
	}
}
