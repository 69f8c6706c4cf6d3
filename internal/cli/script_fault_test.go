package cli_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
)

var _ = scriptCommands(map[string]scriptCommand{
	"mortal":    mortal,
	"strike":    strike,
	"freeze":    freeze,
	"hold":      hold,
	"reached":   reached,
	"abandoned": abandoned,
	"release":   release,
	"lose":      lose,
	"find":      find,
	"strict":    strict,
})

// nodeFaults is what a script has made that can fail.
type nodeFaults struct {
	mortals map[string]*buildNode
	held    map[string]*held
	lost    map[string]*lost
}

// mortal NAME PLATFORM[,PLATFORM] [alone]: a buildkitd of this script alone, with
// nothing in its cache; "strike" kills it. Alone means that it has no network.
func mortal(k *kit, args []string) {
	if len(args) < 2 || len(args) > 3 {
		k.fail("usage: mortal name platforms [alone]")
	}
	dir, err := os.MkdirTemp("", "mfm") // the path of a socket has to be short
	k.ts.Check(err)
	n, err := startNode(dir, args[1], func(cmd *exec.Cmd) {
		if len(args) == 3 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET
		}
	})
	k.ts.Check(err)
	k.ts.Defer(func() {
		n.end(syscall.SIGTERM)
		k.removeAll(dir)
	})
	if k.mortals == nil {
		k.mortals = map[string]*buildNode{}
	}
	k.mortals[args[0]] = n
	k.ts.Setenv(args[0], n.endpoint)
}

// strike NAME: kills a mortal node.
func strike(k *kit, args []string) {
	if len(args) != 1 || k.mortals[args[0]] == nil {
		k.fail("usage: strike node, of those that are mortal")
	}
	k.mortals[args[0]].end(syscall.SIGKILL)
}

// freeze NAME: stops a mortal node without ending it. Its connections stay open
// and nothing comes through them, as if its machine had lost the network.
func freeze(k *kit, args []string) {
	if len(args) != 1 || k.mortals[args[0]] == nil {
		k.fail("usage: freeze node, of those that are mortal")
	}
	n := k.mortals[args[0]]
	k.ts.Check(n.cmd.Process.Signal(syscall.SIGSTOP))
	k.ts.Defer(func() { n.end(syscall.SIGKILL) })
}

// hold NAME REGISTRY METHOD PATH-REGEXP: requests that match (METHOD - is any)
// wait until "release NAME", or until their client gives up.
func hold(k *kit, args []string) {
	if len(args) != 4 {
		k.fail("usage: hold name registry method path")
	}
	h := &held{reached: make(chan struct{}), abandoned: make(chan struct{}), free: make(chan struct{})}
	if k.held == nil {
		k.held = map[string]*held{}
	}
	k.held[args[0]] = h
	matches := requestMatcher(args[2], args[3])
	k.registry(args[1]).Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if matches(r) && h.enter() {
				defer h.serving.Done()
				h.wait(r)
			}
			next.ServeHTTP(w, r)
		})
	})
	k.ts.Defer(h.release)
}

// reached NAME: waits until a request is held.
func reached(k *kit, args []string) { k.await("reached", args, k.hold(args).reached) }

// abandoned NAME: waits until the client of a request that is held gives up.
func abandoned(k *kit, args []string) { k.await("abandoned", args, k.hold(args).abandoned) }

// await fails a script rather than have it wait for ever.
func (k *kit) await(what string, args []string, c <-chan struct{}) {
	select {
	case <-c:
	case <-time.After(time.Minute):
		k.fail("%s was not %s", args[0], what)
	}
}

// release NAME: lets go of what is held and holds nothing more. What was held has
// its answer then.
func release(k *kit, args []string) { k.hold(args).release() }

func (k *kit) hold(args []string) *held {
	if len(args) != 1 || k.held[args[0]] == nil {
		k.fail("name something that is held")
	}
	return k.held[args[0]]
}

type held struct {
	reached, abandoned, free chan struct{}
	reaching, abandoning     sync.Once

	mu      sync.Mutex
	over    bool
	serving sync.WaitGroup
}

// enter reports whether a request is held.
func (h *held) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.over {
		h.serving.Add(1)
	}
	return !h.over
}

func (h *held) wait(r *http.Request) {
	h.reaching.Do(func() { close(h.reached) })
	select {
	case <-h.free:
	case <-r.Context().Done():
		h.abandoning.Do(func() { close(h.abandoned) })
	}
}

func (h *held) release() {
	h.mu.Lock()
	if !h.over {
		h.over = true
		close(h.free)
	}
	h.mu.Unlock()
	h.serving.Wait()
}

// lose REGISTRY nodes|all METHOD PATH-REGEXP: with the first request of theirs
// that matches, those who build, or everybody, do not reach the registry any
// more. "find REGISTRY" ends that; the script fails if it was never so.
func lose(k *kit, args []string) {
	if len(args) != 4 || args[1] != "nodes" && args[1] != "all" {
		k.fail("usage: lose registry nodes|all method path")
	}
	l := &lost{nodes: args[1] == "nodes", matches: requestMatcher(args[2], args[3])}
	if k.lost == nil {
		k.lost = map[string]*lost{}
	}
	k.lost[args[0]] = l
	k.registry(args[0]).Use(l.quirk)
}

// find REGISTRY: it is reached again.
func find(k *kit, args []string) {
	if len(args) != 1 || k.lost[args[0]] == nil {
		k.fail("usage: find registry, of those that were lost")
	}
	if gone := k.lost[args[0]].end(); !gone {
		k.fail("%s was never lost", args[0])
	}
}

type lost struct {
	nodes   bool
	matches func(*http.Request) bool

	mu         sync.Mutex
	gone, over bool
}

func (l *lost) quirk(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !l.cuts(r) {
			next.ServeHTTP(w, r)
			return
		}
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
}

func (l *lost) cuts(r *http.Request) bool {
	if l.nodes && !strings.HasPrefix(r.UserAgent(), "buildkit/") {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = l.gone || l.matches(r)
	return l.gone && !l.over
}

func (l *lost) end() (wasGone bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	return l.gone
}

// strict REGISTRY...: takes Docker's manifests and lists only, as some do.
func strict(k *kit, args []string) {
	for _, a := range args {
		k.registry(a).Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut && strings.HasPrefix(r.Header.Get("Content-Type"), "application/vnd.oci.") {
					http.Error(w, `{"errors":[{"code":"MANIFEST_INVALID","message":"media type is not supported"}]}`, http.StatusUnsupportedMediaType)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
	}
}

// requestMatcher reads METHOD PATH-REGEXP.
func requestMatcher(method, path string) func(*http.Request) bool {
	re := regexp.MustCompile(path)
	return func(r *http.Request) bool {
		return (method == "-" || method == r.Method) && re.MatchString(r.URL.Path)
	}
}

// end signals a node and waits until it is gone.
func (n *buildNode) end(s os.Signal) {
	n.ends.Do(func() {
		if err := n.cmd.Process.Signal(s); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		// One that waits for a request that is held has no reason to end.
		late := time.AfterFunc(5*time.Second, func() { _ = n.cmd.Process.Kill() })
		<-n.drained
		_ = n.cmd.Wait()
		late.Stop()
	})
}
