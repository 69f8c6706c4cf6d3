package cli_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/opencontainers/go-digest"
)

// crash is one publish of a new index over an old one, under two tags, in a
// repository of its own: both at one registry, or one at each of two.
type crash struct {
	t        *testing.T
	targets  []*registrytest.Registry
	repo     string
	old, new registrytest.Content
	args     []string
	env      []string
	state    string
}

// TestKilledAtEveryRequest kills the process before and after each request of a
// publish, one run per request, and takes it up again. After every write of any
// run, each tag names the old index or the new one, whole; in the end both name
// the new one, nothing that was there has been sent again, and nothing is left.
func TestKilledAtEveryRequest(t *testing.T) {
	t.Parallel()
	source, target := registrytest.Distribution(t), registrytest.Distribution(t)
	old, whole := crashContents(t, source)
	c := newCrash(t, source, "first", old, target)
	before := len(target.Log())
	c.must(c.args...)
	n := len(target.Log()) - before
	c.learn(&whole)
	var watched atomic.Pointer[crash]
	target.Use(registrytest.Rewriting("PUT", "/manifests/", func(*registrytest.Answer) {
		if c := watched.Load(); c != nil {
			c.check("after a write")
		}
	}))
	for i := range n {
		for mode, fault := range map[string]func(kill func()) registrytest.Fault{
			"before": func(kill func()) registrytest.Fault {
				return registrytest.Fault{Skip: i, Cut: registrytest.CutBefore, Edit: func(*http.Request) { kill() }}
			},
			"after": func(kill func()) registrytest.Fault {
				return registrytest.Fault{Skip: i, Rewrite: func(*registrytest.Answer) { kill() }}
			},
		} {
			c := newCrash(t, source, fmt.Sprintf("%s-%d", mode, i), old, target)
			c.new = whole
			watched.Store(c)
			c.killedAt(fault)
			c.takenUp(mode == "after")
		}
	}
}

// crashContents are what is published, and what was there before.
func crashContents(t *testing.T, source *registrytest.Registry) (old, whole registrytest.Content) {
	image := func(platform, text string) registrytest.Content {
		return registrytest.Image(t, platform, registrytest.ImageOptions{Text: text})
	}
	whole = registrytest.Content{Children: []registrytest.Content{image("linux/amd64", "new"), image("linux/arm64", "new")}}
	source.Push("src", "amd", whole.Children[0])
	source.Push("src", "arm", whole.Children[1])
	return registrytest.Index(t, registrytest.IndexOptions{}, image("linux/amd64", "old"), image("linux/arm64", "old")), whole
}

// learn reads the index that the publish has made.
func (c *crash) learn(whole *registrytest.Content) {
	c.t.Helper()
	var ok bool
	if whole.Root, ok = c.targets[0].Manifest(c.repo, "1"); !ok || len(c.log()) < 20 {
		c.t.Fatalf("not the publish that was meant:\n%s", c.transcript())
	}
}

// newCrash publishes under the tags 1 and 2, at the targets in turn.
func newCrash(t *testing.T, source *registrytest.Registry, repo string, old registrytest.Content, targets ...*registrytest.Registry) *crash {
	t.Helper()
	home := t.TempDir()
	args := []string{"create", "--progress", "none"}
	for i, tag := range []string{"1", "2"} {
		target := targets[i%len(targets)]
		target.Push(repo, tag, old)
		args = append(args, "-t", target.Reference(repo, tag))
	}
	return &crash{
		t: t, targets: targets, repo: repo, old: old, state: filepath.Join(home, "state"),
		args: append(args, source.Reference("src", "amd"), source.Reference("src", "arm")),
		env:  append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "DOCKER_CONFIG="+home),
	}
}

// log is what all targets have been asked, one after the other.
func (c *crash) log() []registrytest.Request {
	var out []registrytest.Request
	for _, r := range c.targets {
		out = append(out, r.Log()...)
	}
	return out
}

// settle waits until what a process that is gone has asked for is done.
func (c *crash) settle() {
	for _, r := range c.targets {
		r.Settle()
	}
}

func (c *crash) transcript() string {
	var b strings.Builder
	for _, r := range c.targets {
		b.WriteString(r.Transcript() + "\n")
	}
	return b.String()
}

func (c *crash) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.Command("manifold", args...)
	cmd.Env = c.env
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

func (c *crash) must(args ...string) {
	c.t.Helper()
	cmd, out := c.command(args...)
	if err := cmd.Run(); err != nil {
		c.t.Fatalf("%s: manifold %s: %v\n%s\n%s", c.repo, strings.Join(args, " "), err, out, c.transcript())
	}
}

// killedAt runs the publish and kills it when the fault happens.
func (c *crash) killedAt(fault func(kill func()) registrytest.Fault) {
	c.t.Helper()
	cmd, out := c.command(c.args...)
	var once sync.Once
	rule := c.targets[0].Fault(fault(func() {
		once.Do(func() { _ = cmd.Process.Kill() })
	}))
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		c.t.Fatalf("%s: not killed (%d): %s", c.repo, rule.Hits(), out)
	}
	c.settle()
	c.check("after the kill")
}

// takenUp finishes the publish, by resume if it got as far as a journal.
func (c *crash) takenUp(resume bool) {
	c.t.Helper()
	args := c.args
	if left, _ := filepath.Glob(filepath.Join(c.state, "manifold", "journal", "*.journal")); resume && len(left) == 1 {
		args = []string{"resume", "--progress", "none"}
	}
	before := make([]map[string]bool, len(c.targets))
	from := make([]int, len(c.targets))
	for k, r := range c.targets {
		before[k], from[k] = c.held(r), len(r.Log())
	}
	c.must(args...)
	for k, r := range c.targets {
		for _, q := range r.Log()[from[k]:] {
			if d := sentDigest(q); q.Method == "PUT" && before[k][d] {
				c.t.Errorf("%s: sent again though it is there: %s", c.repo, q)
			}
		}
		c.finished(r)
	}
	c.check("in the end")
	if left, _ := filepath.Glob(filepath.Join(c.state, "manifold", "journal", "*")); len(left) > 0 {
		c.t.Errorf("%s: journals are left: %v", c.repo, left)
	}
}

// held is the new content that a target has already.
func (c *crash) held(r *registrytest.Registry) map[string]bool {
	c.t.Helper()
	there := map[string]bool{}
	for _, b := range c.new.Manifests() {
		_, there[b.Digest.String()] = r.Manifest(c.repo, b.Digest.String())
	}
	for _, b := range c.new.AllBlobs() {
		there[b.Digest.String()] = r.HasBlob(c.repo, b.Digest)
	}
	return there
}

// finished fails unless a target has the new index, and nothing besides it and
// the old one.
func (c *crash) finished(r *registrytest.Registry) {
	c.t.Helper()
	for tag, d := range r.Tags(c.repo) {
		if d != c.new.Digest() {
			c.t.Errorf("%s:%s names %s in the end", c.repo, tag, d)
		}
	}
	if got, want := len(r.Manifests(c.repo)), len(c.new.Manifests())+len(c.old.Manifests()); got != want {
		c.t.Errorf("%s: %d manifests in the end, want %d", c.repo, got, want)
	}
}

var digestIn = regexp.MustCompile(`sha256(?::|%3A)([0-9a-f]{64})`)

// sentDigest is what a PUT by digest sends, empty for a tag.
func sentDigest(q registrytest.Request) string {
	if m := digestIn.FindStringSubmatch(q.Path + "?" + q.Query); m != nil {
		return "sha256:" + m[1]
	}
	return ""
}

// check fails unless each tag names the old or the new index, whole.
func (c *crash) check(when string) {
	c.t.Helper()
	for _, r := range c.targets {
		for tag, d := range r.Tags(c.repo) {
			c.whole(r, fmt.Sprintf("%s: %s", when, r.Reference(c.repo, tag)), d)
		}
	}
}

// whole fails unless a digest is that of the old or the new index, and a target
// has all of it.
func (c *crash) whole(r *registrytest.Registry, tag string, d digest.Digest) {
	c.t.Helper()
	content := c.old
	switch d {
	case c.old.Digest():
	case c.new.Digest():
		content = c.new
	default:
		c.t.Errorf("%s names %s, which is neither the old nor the new index", tag, d)
	}
	for _, b := range content.Manifests() {
		if _, ok := r.Manifest(c.repo, b.Digest.String()); !ok {
			c.t.Errorf("%s names an index that misses %s", tag, b.Digest)
		}
	}
	for _, b := range content.AllBlobs() {
		if !r.HasBlob(c.repo, b.Digest) {
			c.t.Errorf("%s names an index that misses blob %s", tag, b.Digest)
		}
	}
}
