package cli

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var updateReference = flag.Bool("update-reference", false, "write docs/reference anew")

// TestReferenceIsCurrent: docs/reference is made from the commands. After a
// change of a flag or a help text:
//
//	go test ./internal/cli -run TestReferenceIsCurrent -update-reference
func TestReferenceIsCurrent(t *testing.T) {
	home := t.TempDir()
	for _, name := range []string{"BUILDX_BUILDER", "DOCKER_DEFAULT_PLATFORM", "DEBUG", "DOCKER_CONTEXT", "DOCKER_HOST"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	root := newRoot(Host{In: io.NopCloser(bytes.NewReader(nil)), Out: io.Discard, Err: io.Discard, Env: os.LookupEnv}, nil)
	root.DisableAutoGenTag = true
	dir := filepath.Join("..", "..", "docs", "reference")
	known := map[string]bool{}
	visit(root, func(c *cobra.Command) {
		name := filepath.Base(pageName(c))
		known[name] = true
		var b bytes.Buffer
		if err := doc.GenMarkdown(c, &b); err != nil {
			t.Fatal(err)
		}
		checkPage(t, filepath.Join(dir, name), b.Bytes())
	})
	pages, err := filepath.Glob(filepath.Join(dir, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pages {
		if !known[filepath.Base(p)] {
			t.Errorf("%s is of no command", p)
		}
	}
}

func visit(c *cobra.Command, f func(*cobra.Command)) {
	if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
		return
	}
	f(c)
	for _, sub := range c.Commands() {
		visit(sub, f)
	}
}

// pageName is the name that cobra's links use.
func pageName(c *cobra.Command) string {
	name := ""
	for ; c != nil; c = c.Parent() {
		name = "_" + c.Name() + name
	}
	return name[1:] + ".md"
}

func checkPage(t *testing.T, path string, want []byte) {
	t.Helper()
	if *updateReference {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the command says of itself: run this test with -update-reference", path)
	}
}
