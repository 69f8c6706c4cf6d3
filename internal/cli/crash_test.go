package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/opencontainers/go-digest"
)

// crash is one publish of a new index over an old one, under two tags, in a
// repository of its own.
type crash struct {
	t        *testing.T
	target   *registrytest.Registry
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
	source, target := registrytest.Distribution(t), registrytest.Distribution(t)
	old, whole := crashContents(t, source)
	c := newCrash(t, source, target, "first", old)
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
			c := newCrash(t, source, target, fmt.Sprintf("%s-%d", mode, i), old)
			c.new = whole
			watched.Store(c)
			c.killedAt(fault)
			c.takenUp(mode == "after")
		}
	}
}

// TestInterruptedAtEveryRequest sends the process the signal of Ctrl-C while each
// request is under way, before and after the registry has carried it out. It
// ends with 130 and tells what became of the tags, moves no tag any more except
// back, and cancels what it was uploading; then it is taken up.
func TestInterruptedAtEveryRequest(t *testing.T) {
	source, target := registrytest.Distribution(t), registrytest.Distribution(t)
	old, whole := crashContents(t, source)
	c := newCrash(t, source, target, "first", old)
	before := len(target.Log())
	c.must(c.args...)
	n := len(target.Log()) - before
	c.learn(&whole)
	for i := range n {
		for _, carriedOut := range []bool{false, true} {
			c := newCrash(t, source, target, fmt.Sprintf("interrupted-%d-%t", i, carriedOut), old)
			c.new = whole
			c.interruptedAt(i, carriedOut)
			c.takenUp(true)
		}
	}
}

// interruptedAt runs the publish and sends the signal at its request i, which is
// never answered.
func (c *crash) interruptedAt(i int, carriedOut bool) {
	c.t.Helper()
	cmd, out := c.command(c.args...)
	var asked context.Context
	signal := func() { _ = cmd.Process.Signal(os.Interrupt) }
	f := registrytest.Fault{Skip: i, Cut: registrytest.CutBefore, Edit: func(r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // a server sees that a client has gone only then
		signal()
		<-r.Context().Done()
	}}
	if carriedOut {
		f = registrytest.Fault{Skip: i, Edit: func(r *http.Request) { asked = r.Context() }, Rewrite: func(*registrytest.Answer) {
			signal()
			<-asked.Done()
		}}
	}
	c.target.Fault(f)
	from := len(c.target.Log())
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		c.t.Errorf("%s: ended with %v, want 130\n%s", c.repo, err, out)
	}
	c.check("after the signal")
	names := map[digest.Digest]bool{}
	for _, d := range c.target.Tags(c.repo) {
		names[d] = true
	}
	if len(names) != 1 {
		c.t.Errorf("%s: the two tags name different indexes", c.repo)
	}
	c.cancelled(c.target.Log()[from:])
	if said := out.String(); !strings.Contains(said, "interrupt") || i > 4 && !strings.Contains(said, c.target.Reference(c.repo, "1")) {
		c.t.Errorf("%s: does not say what was done:\n%s", c.repo, said)
	}
}

// cancelled fails when the upload that was under way has not been ended.
func (c *crash) cancelled(log []registrytest.Request) {
	c.t.Helper()
	for _, q := range log {
		if q.Method != "PUT" || q.Status != 0 || !strings.Contains(q.Path, "/uploads/") {
			continue
		}
		ended := slices.ContainsFunc(log, func(d registrytest.Request) bool { return d.Method == "DELETE" && d.Path == q.Path })
		if !ended {
			c.t.Errorf("%s: the upload that was under way has not been cancelled\n%s", c.repo, c.target.Transcript())
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
	if whole.Root, ok = c.target.Manifest(c.repo, "1"); !ok || len(c.target.Log()) < 20 {
		c.t.Fatalf("not the publish that was meant:\n%s", c.target.Transcript())
	}
}

func newCrash(t *testing.T, source, target *registrytest.Registry, repo string, old registrytest.Content) *crash {
	t.Helper()
	home := t.TempDir()
	target.Push(repo, "1", old)
	target.Push(repo, "2", old)
	return &crash{
		t: t, target: target, repo: repo, old: old, state: filepath.Join(home, "state"),
		args: []string{"create", "--progress", "none", "-t", target.Reference(repo, "1"), "-t", target.Reference(repo, "2"),
			source.Reference("src", "amd"), source.Reference("src", "arm")},
		env: append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+filepath.Join(home, "state"), "DOCKER_CONFIG="+home),
	}
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
		c.t.Fatalf("%s: manifold %s: %v\n%s\n%s", c.repo, strings.Join(args, " "), err, out, c.target.Transcript())
	}
}

// killedAt runs the publish and kills it when the fault happens.
func (c *crash) killedAt(fault func(kill func()) registrytest.Fault) {
	c.t.Helper()
	cmd, out := c.command(c.args...)
	var once sync.Once
	rule := c.target.Fault(fault(func() {
		once.Do(func() { _ = cmd.Process.Kill() })
	}))
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		c.t.Fatalf("%s: not killed (%d): %s", c.repo, rule.Hits(), out)
	}
	c.check("after the kill")
}

// takenUp finishes the publish, by resume if it got as far as a journal.
func (c *crash) takenUp(resume bool) {
	c.t.Helper()
	args := c.args
	if left, _ := filepath.Glob(filepath.Join(c.state, "manifold", "journal", "*.journal")); resume && len(left) == 1 {
		args = []string{"resume", "--progress", "none"}
	}
	there := map[string]bool{}
	for _, b := range append(c.new.Manifests(), c.new.AllBlobs()...) {
		_, isManifest := c.target.Manifest(c.repo, b.Digest.String())
		there[b.Digest.String()] = isManifest || c.target.HasBlob(c.repo, b.Digest)
	}
	from := len(c.target.Log())
	c.must(args...)
	for _, q := range c.target.Log()[from:] {
		if d := sentDigest(q); q.Method == "PUT" && there[d] {
			c.t.Errorf("%s: sent again though it is there: %s", c.repo, q)
		}
	}
	c.check("in the end")
	for tag, d := range c.target.Tags(c.repo) {
		if d != c.new.Digest() {
			c.t.Errorf("%s:%s names %s in the end", c.repo, tag, d)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(c.state, "manifold", "journal", "*")); len(left) > 0 {
		c.t.Errorf("%s: journals are left: %v", c.repo, left)
	}
	if got, want := len(c.target.Manifests(c.repo)), len(c.new.Manifests())+len(c.old.Manifests()); got != want {
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
	for tag, d := range c.target.Tags(c.repo) {
		content := c.old
		switch d {
		case c.old.Digest():
		case c.new.Digest():
			content = c.new
		default:
			c.t.Errorf("%s: %s:%s names %s, which is neither the old nor the new index", when, c.repo, tag, d)
		}
		for _, b := range content.Manifests() {
			if _, ok := c.target.Manifest(c.repo, b.Digest.String()); !ok {
				c.t.Errorf("%s: %s:%s names an index that misses %s", when, c.repo, tag, b.Digest)
			}
		}
		for _, b := range content.AllBlobs() {
			if !c.target.HasBlob(c.repo, b.Digest) {
				c.t.Errorf("%s: %s:%s names an index that misses blob %s", when, c.repo, tag, b.Digest)
			}
		}
	}
}
