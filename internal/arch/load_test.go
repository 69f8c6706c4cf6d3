package arch

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/manifold-oci/manifold"

// pkg is what "go list" tells of a package.
type pkg struct {
	ImportPath   string
	Name         string
	Doc          string
	GoFiles      []string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// room is the package's path inside the module, "." for the root package.
func (p pkg) room() string {
	if p.ImportPath == module {
		return "."
	}
	return strings.TrimPrefix(p.ImportPath, module+"/")
}

// graph is every package that the module is built from, by import path.
type graph map[string]pkg

// own returns the module's packages.
func (g graph) own() []pkg {
	var out []pkg
	for path, p := range g {
		if inModule(path) {
			out = append(out, p)
		}
	}
	return out
}

func inModule(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

var list = sync.OnceValues(func() ([]byte, error) {
	cmd := exec.Command("go", "list", "-e", "-deps",
		"-json=ImportPath,Name,Doc,GoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	return cmd.Output()
})

func load(t *testing.T) graph {
	t.Helper()
	out, err := list()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	g := graph{}
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		g[p.ImportPath] = p
	}
	if len(g.own()) < 5 {
		t.Fatalf("go list knows %d packages of this module", len(g.own()))
	}
	return g
}

// sources returns the module's Go files, relative to its root.
func sources(t *testing.T) []string {
	t.Helper()
	var out []string
	top := root(t)
	err := filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != top && skipped(e.Name()):
			return filepath.SkipDir
		case !e.IsDir() && strings.HasSuffix(path, ".go"):
			rel, err := filepath.Rel(top, path)
			out = append(out, rel)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func skipped(dir string) bool {
	return strings.HasPrefix(dir, ".") || dir == "testdata" || dir == "bin"
}
