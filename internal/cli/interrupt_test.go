package cli_test

import (
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
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

// TestInterruptedAtEveryRequest sends the process the signal of Ctrl-C while each
// request of a publish to two registries is under way, before and after the
// registry has carried it out. No tag is written after the signal, neither
// forward nor back; each names the old index or the new one, whole. The process
// ends with 130, says what became of each tag and how to go on, and has
// cancelled what it was uploading. Then it is taken up and finished.
func TestInterruptedAtEveryRequest(t *testing.T) {
	t.Parallel()
	source := registrytest.Distribution(t)
	targets := []*registrytest.Registry{registrytest.Distribution(t), registrytest.Docker28(t)}
	old, whole := crashContents(t, source)
	c := newCrash(t, source, "first", old, targets...)
	before := []int{len(targets[0].Log()), len(targets[1].Log())}
	c.must(c.args...)
	var n []int
	for k, r := range targets {
		n = append(n, len(r.Log())-before[k])
	}
	c.learn(&whole)
	half := 0
	for k := range targets {
		for i := range n[k] {
			for _, carriedOut := range []bool{false, true} {
				c := newCrash(t, source, fmt.Sprintf("interrupted-%d-%d-%t", k, i, carriedOut), old, targets...)
				c.new = whole
				c.interruptedAt(k, i, carriedOut)
				if c.moved(0) != c.moved(1) {
					half++
				}
				c.takenUp(true)
			}
		}
	}
	if half == 0 {
		t.Error("no run was interrupted between its two tags")
	}
}

// moved reports whether the tag at a target names the new index.
func (c *crash) moved(k int) bool {
	for _, d := range c.targets[k].Tags(c.repo) {
		return d == c.new.Digest()
	}
	return false
}

// interruptedAt runs the publish and sends the signal at request i of a target,
// which is never answered.
func (c *crash) interruptedAt(k, i int, carriedOut bool) {
	c.t.Helper()
	cmd, out := c.command(c.args...)
	var asked context.Context
	// after is how long the logs were when the signal was sent. That is in time:
	// the process has it before it gives up the request.
	after := make([]int, len(c.targets))
	signal := func() {
		for k, r := range c.targets {
			after[k] = len(r.Log())
		}
		_ = cmd.Process.Signal(os.Interrupt)
	}
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
	from := []int{len(c.targets[0].Log()), len(c.targets[1].Log())}
	c.targets[k].Fault(f)
	err := cmd.Run()
	c.settle()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 130 {
		c.t.Errorf("%s: ended with %v, want 130\n%s", c.repo, err, out)
	}
	c.check("after the signal")
	for k, r := range c.targets {
		c.noTag(r.Log()[after[k]:])
		c.cancelled(r.Log()[from[k]:])
	}
	c.told(out.String())
}

var tagWrite = regexp.MustCompile(`^(PUT|DELETE) /v2/[^ ]+/manifests/[12] `)

// noTag fails when a tag was written.
func (c *crash) noTag(log []registrytest.Request) {
	c.t.Helper()
	for _, q := range log {
		if tagWrite.MatchString(q.String()) {
			c.t.Errorf("%s: after the signal: %s", c.repo, q)
		}
	}
}

// told fails unless the output says what a run that had begun did, of every tag,
// and how to go on.
func (c *crash) told(said string) {
	c.t.Helper()
	if !strings.Contains(said, "interrupt") {
		c.t.Errorf("%s: does not say that it was interrupted:\n%s", c.repo, said)
	}
	if left, _ := filepath.Glob(filepath.Join(c.state, "manifold", "journal", "*.journal")); len(left) == 0 {
		if c.moved(0) || c.moved(1) {
			c.t.Errorf("%s: a tag has moved and there is no journal:\n%s", c.repo, said)
		}
		return
	}
	if !strings.Contains(said, "manifold resume") {
		c.t.Errorf("%s: does not say how to go on:\n%s", c.repo, said)
	}
	for k, r := range c.targets {
		fates := `untried|unknown`
		if c.moved(k) {
			fates = `moved`
		}
		line := regexp.MustCompile(`(?m)^(` + fates + `) +` + regexp.QuoteMeta(r.Reference(c.repo, fmt.Sprint(k+1))) + `\b`)
		if !line.MatchString(said) {
			c.t.Errorf("%s: does not say what became of tag %d, want %s:\n%s", c.repo, k+1, fates, said)
		}
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
			c.t.Errorf("%s: the upload that was under way has not been cancelled\n%s", c.repo, c.transcript())
		}
	}
}
