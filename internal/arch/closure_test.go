package arch

import (
	"slices"
	"strings"
	"testing"
)

// owners are the only rooms that may import a heavy dependency, by its path.
var owners = map[string]string{
	"github.com/docker/buildx":                "internal/buildkit",
	"github.com/moby/buildkit":                "internal/buildkit",
	"github.com/docker/cli/cli/command":       "internal/buildkit",
	"github.com/distribution/distribution/v3": "internal/localregistry",
}

// heavy is what no library room may pull in, not even through others: a program
// that publishes an image should not have to link a build engine, a container
// runtime's client or a registry.
var heavy = []string{
	"github.com/docker/buildx",
	"github.com/moby/buildkit",
	"github.com/containerd/containerd",
	"github.com/distribution/distribution/v3",
	"github.com/docker/cli",
	"github.com/docker/docker",
	"github.com/spf13/cobra",
	"google.golang.org/grpc",
	"k8s.io",
}

// light are the rooms that any Go program can import.
func light(room string) bool {
	rank, known := ranks[room]
	return known && (rank <= 3 || room == "apply" || room == ".")
}

func TestHeavyDependenciesHaveOneRoom(t *testing.T) {
	for _, p := range load(t).own() {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for dep, owner := range owners {
				if within(path, dep) && p.room() != owner {
					t.Errorf("%s imports %s; only %s may", p.room(), path, owner)
				}
			}
		}
	}
}

func TestLibraryRoomsStayLight(t *testing.T) {
	g := load(t)
	for _, p := range g.own() {
		if !light(p.room()) {
			continue
		}
		for _, dep := range heavy {
			if chain := g.chain(p.ImportPath, dep); chain != nil {
				t.Errorf("%s pulls in %s:\n\t%s", p.room(), dep, strings.Join(chain, "\n\t-> "))
			}
		}
	}
}

// The rule above would hold of an empty graph, too.
func TestChainsAreFound(t *testing.T) {
	g := load(t)
	chain := g.chain(module+"/internal/localregistry", "github.com/distribution/distribution/v3")
	if len(chain) < 2 || !strings.HasPrefix(chain[len(chain)-1], "github.com/distribution/distribution/v3") {
		t.Errorf("chain = %v", chain)
	}
	if within("github.com/moby/buildkitten", "github.com/moby/buildkit") {
		t.Error("a longer name is within a shorter one")
	}
}

func within(path, dep string) bool { return path == dep || strings.HasPrefix(path, dep+"/") }

// chain is the shortest way of imports from a package to a dependency, nil
// when there is none.
func (g graph) chain(from, dep string) []string {
	before := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		at := queue[0]
		if within(at, dep) {
			return walkBack(before, at)
		}
		for _, next := range g[at].Imports {
			if _, seen := before[next]; !seen {
				before[next] = at
				queue = append(queue, next)
			}
		}
	}
	return nil
}

func walkBack(before map[string]string, at string) []string {
	var chain []string
	for ; at != ""; at = before[at] {
		chain = append(chain, at)
	}
	slices.Reverse(chain)
	return chain
}
