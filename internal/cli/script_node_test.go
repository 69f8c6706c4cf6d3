package cli_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

var _ = scriptCommands(map[string]scriptCommand{
	"node":    node,
	"builder": builder,
	"tool":    tool,
})

// node NAME PLATFORM[,PLATFORM]: a buildkitd that claims platforms; $NAME is its
// endpoint. Scripts share nodes, so caches may be warm.
func node(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: node name platforms")
	}
	n, err := nodes.get(args[1])
	k.ts.Check(err)
	k.ts.Setenv(args[0], n.endpoint)
}

// builder NAME PLATFORM=ENDPOINT...: a buildx instance of remote nodes, made by
// buildx itself.
func builder(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: builder name platform=endpoint...")
	}
	buildx, err := built("buildx", "github.com/docker/buildx/cmd/buildx")
	k.ts.Check(err)
	for i, a := range args[1:] {
		platform, endpoint := option(a)
		create := []string{"create", "--name", args[0], "--driver", "remote", "--platform", platform}
		if i > 0 {
			create = append(create, "--append")
		}
		k.ts.Check(k.ts.Exec(buildx, append(create, endpoint)...))
	}
}

// tool NAME: builds a program that is to be had from a module that go.mod
// requires, unless it is in bin already: buildkitd, buildctl, buildx, crane. bin is in
// PATH.
func tool(k *kit, args []string) {
	packages := map[string]string{
		"buildkitd": "github.com/moby/buildkit/cmd/buildkitd",
		"buildx":    "github.com/docker/buildx/cmd/buildx",
		"buildctl":  "github.com/moby/buildkit/cmd/buildctl",
		"crane":     "github.com/google/go-containerregistry/cmd/crane",
	}
	for _, name := range args {
		if packages[name] == "" {
			k.fail("tool: unknown %q", name)
		}
		_, err := built(name, packages[name])
		k.ts.Check(err)
	}
}

var building sync.Mutex

// built returns the path of a program in bin, and builds it if it is not there
// and not in PATH.
func built(name, pkg string) (string, error) {
	building.Lock()
	defer building.Unlock()
	path, err := filepath.Abs("../../bin/" + name)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if found, err := exec.LookPath(name); err == nil {
		return found, nil
	}
	return path, goBuild(path, pkg)
}

func goBuild(path, pkg string) error {
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", pkg, err, out)
	}
	return nil
}

// withNodes stops the nodes when all tests have run.
type withNodes struct{ m *testing.M }

func (w withNodes) Run() int {
	code := w.m.Run()
	if err := nodes.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

// nodes are the buildkitds of this test binary, started when first wanted.
var nodes nodePool

type nodePool struct {
	mu  sync.Mutex
	dir string
	all map[string]*buildNode
}

type buildNode struct {
	endpoint string
	cmd      *exec.Cmd
	drained  chan struct{}
	ends     sync.Once
}

// temp is a folder with a short name: the path of a socket has a limit of 108
// bytes.
func (p *nodePool) temp() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tempLocked()
}

func (p *nodePool) tempLocked() (string, error) {
	var err error
	if p.dir == "" {
		p.dir, err = os.MkdirTemp("", "mf")
	}
	return p.dir, err
}

func (p *nodePool) get(platforms string) (*buildNode, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := p.all[platforms]; n != nil {
		return n, nil
	}
	dir, err := p.tempLocked()
	if err != nil {
		return nil, err
	}
	n, err := startNode(filepath.Join(dir, fmt.Sprint(len(p.all))), platforms, func(*exec.Cmd) {})
	if err != nil {
		return nil, err
	}
	if p.all == nil {
		p.all = map[string]*buildNode{}
	}
	p.all[platforms] = n
	return n, nil
}

func (p *nodePool) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, n := range p.all {
		errs = append(errs, n.cmd.Process.Signal(syscall.SIGTERM))
		// A node that does not end by itself is no reason to wait for ever.
		late := time.AfterFunc(10*time.Second, func() { _ = n.cmd.Process.Kill() })
		<-n.drained
		_ = n.cmd.Wait()
		late.Stop()
	}
	if p.dir != "" {
		errs = append(errs, registrytest.RemoveAll(p.dir))
	}
	return errors.Join(errs...)
}

// removeAll removes the folder of a daemon of this script.
func (k *kit) removeAll(dir string) {
	if err := registrytest.RemoveAll(dir); err != nil {
		k.TB.Error(err)
	}
}

// startNode runs a buildkitd and waits until it says that it listens. edit may
// change the command before it starts.
func startNode(dir, platforms string, edit func(*exec.Cmd)) (*buildNode, error) {
	n, err := newNode(dir, platforms)
	if err != nil {
		return nil, err
	}
	edit(n.cmd)
	return n, n.start()
}

// newNode is a buildkitd with its state and socket in dir, not started. Without
// platforms it lists those that it finds.
func newNode(dir, platforms string) (*buildNode, error) {
	bin, err := built("buildkitd", "github.com/moby/buildkit/cmd/buildkitd")
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	n := &buildNode{endpoint: "unix://" + filepath.Join(dir, "s"), drained: make(chan struct{})}
	args := []string{"--root", filepath.Join(dir, "root"), "--addr", n.endpoint, "--containerd-worker=false",
		"--oci-worker=true", "--oci-worker-snapshotter=native"}
	for p := range strings.SplitSeq(platforms, ",") {
		if p != "" {
			args = append(args, "--oci-worker-platform", p)
		}
	}
	n.cmd = exec.Command(bin, args...)
	n.cmd.Env = append(os.Environ(), "TMPDIR="+dir) // a node that is killed leaves folders there
	// A node goes with a test binary that is killed.
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return n, nil
}

// start waits until the node says that it listens.
func (n *buildNode) start() error {
	stderr, err := n.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := n.cmd.Start(); err != nil {
		return err
	}
	return n.await(stderr)
}

func (n *buildNode) await(stderr io.Reader) error {
	lines := bufio.NewReader(stderr)
	said := ""
	for {
		line, err := lines.ReadString('\n')
		said += line
		if strings.Contains(line, "running server on") {
			break
		}
		if err != nil {
			_ = n.cmd.Wait()
			return fmt.Errorf("buildkitd did not start:\n%s", said)
		}
	}
	go func() {
		defer close(n.drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	return nil
}
