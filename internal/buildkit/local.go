package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/moby/buildkit/client"
)

const (
	// startTimeout bounds how long a new buildkitd may take to answer; the first
	// start creates its databases and probes for a snapshotter.
	startTimeout = time.Minute
	// stopGrace is what buildkitd gets to end its work after SIGTERM.
	stopGrace = 10 * time.Second
	// askEvery is the pause between questions while waiting.
	askEvery = 50 * time.Millisecond
	// maxSocketPath is the shortest limit of the systems we run on (sun_path).
	maxSocketPath = 100
)

// LocalOptions says how to start a buildkitd on this machine. StateDir is
// needed; the rest may be zero.
type LocalOptions struct {
	// Buildkitd is a path, empty to look beside the program and in Path.
	Buildkitd string
	// Beside is the directory of the running program.
	Beside string
	// Path is a list of directories, as in $PATH.
	Path string
	// StateDir keeps buildkitd's root and with it the build cache. One run at a
	// time uses it.
	StateDir string
	// Log gets what buildkitd writes.
	Log io.Writer
	// Args are further arguments of buildkitd.
	Args []string
	// Waiting is called once when another run uses StateDir.
	Waiting func(stateDir string)
}

// Local is a buildkitd of this run.
type Local struct {
	endpoint string
	dir      string // of the socket, when it is temporary
	process  *process
	stop     sync.Once
	release  func() bool
}

// StartLocal finds buildkitd and runc, waits for the state directory to be
// free, starts buildkitd and waits until it answers. It ends with [Local.Close],
// with ctx, and with this process, however that ends.
//
// Errors: [*HostError], [*MissingToolError], [*StartError], or of the file
// system.
func StartLocal(ctx context.Context, o LocalOptions) (*Local, error) {
	if err := checkHost(runtime.GOOS, os.Geteuid()); err != nil {
		return nil, err
	}
	buildkitd, runc, err := findTools(o)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(o.StateDir, 0o700); err != nil {
		return nil, fmt.Errorf("local buildkitd: %w", err)
	}
	lock, err := lockState(ctx, o)
	if err != nil {
		return nil, err
	}
	// buildkitd holds the lock too, so a run that was killed keeps it until its
	// buildkitd is gone.
	defer lock.Close()
	l := &Local{}
	if err := l.start(o, buildkitd, runc, lock); err != nil {
		return nil, errors.Join(err, l.removeDir())
	}
	if err := l.waitReady(ctx, buildkitd); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	l.release = context.AfterFunc(ctx, l.end)
	return l, nil
}

// Endpoint is the address of the node, unix:///….
func (l *Local) Endpoint() string { return l.endpoint }

// Close stops buildkitd, first kindly, and waits until it is gone. It stops no
// other process and may be called again.
func (l *Local) Close() error {
	if l.release != nil {
		l.release()
	}
	l.end()
	return l.removeDir()
}

func (l *Local) end() {
	l.stop.Do(func() { l.process.stop(stopGrace) })
}

func (l *Local) removeDir() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}

func (l *Local) start(o LocalOptions, buildkitd, runc string, lock *os.File) error {
	socket, err := l.socketPath(o.StateDir)
	if err != nil {
		return err
	}
	l.endpoint = "unix://" + socket
	root, err := filepath.Abs(filepath.Join(o.StateDir, "root"))
	if err != nil {
		return fmt.Errorf("local buildkitd: %w", err)
	}
	args := append([]string{
		"--root", root, "--addr", l.endpoint,
		"--containerd-worker=false", "--oci-worker=true",
		"--oci-worker-snapshotter=auto", "--oci-worker-binary", runc,
	}, o.Args...)
	cmd := exec.Command(buildkitd, args...)
	cmd.ExtraFiles = []*os.File{lock}
	l.process, err = startProcess(cmd, o.Log)
	if err != nil {
		return &StartError{Path: buildkitd, Err: err}
	}
	return nil
}

// socketPath stays in the state directory unless that path is too long for a
// socket.
func (l *Local) socketPath(stateDir string) (string, error) {
	socket, err := filepath.Abs(filepath.Join(stateDir, "buildkitd.sock"))
	if err == nil && len(socket) > maxSocketPath {
		l.dir, err = os.MkdirTemp("", "manifold-")
		socket = filepath.Join(l.dir, "buildkitd.sock")
	}
	if err != nil {
		return "", fmt.Errorf("local buildkitd: %w", err)
	}
	return socket, nil
}

// waitReady asks until buildkitd answers with a worker.
func (l *Local) waitReady(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("no answer within %s", startTimeout))
	defer cancel()
	for {
		if l.answers(ctx) {
			return nil
		}
		select {
		case <-l.process.done:
			return &StartError{Path: path, Err: l.process.err, Tail: l.process.tail.String()}
		case <-ctx.Done():
			return &StartError{Path: path, Err: context.Cause(ctx), Tail: l.process.tail.String()}
		case <-time.After(askEvery):
		}
	}
}

func (l *Local) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	c, err := client.New(ctx, l.endpoint)
	if err != nil {
		return false
	}
	defer c.Close()
	workers, err := c.ListWorkers(ctx)
	return err == nil && len(workers) > 0
}

// StartError reports a buildkitd that did not come up.
type StartError struct {
	Path string
	Err  error
	// Tail is the end of what it wrote.
	Tail string
}

func (e *StartError) Error() string {
	s := e.Path + ": did not start"
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if tail := strings.TrimSpace(e.Tail); tail != "" {
		s += "\n" + tail
	}
	return s
}

func (e *StartError) Unwrap() error { return e.Err }

// HostError reports that no buildkitd can be started on this machine by this
// user.
type HostError struct{ Reason string }

func (e *HostError) Error() string { return "local buildkitd: " + e.Reason }

func checkHost(goos string, uid int) error {
	if goos != "linux" {
		return &HostError{Reason: "runs on Linux only: name a node with --node or --builder"}
	}
	if uid != 0 {
		return &HostError{Reason: fmt.Sprintf("needs root, this is user %d: start a rootless one with "+
			"\"rootlesskit buildkitd --addr unix://$XDG_RUNTIME_DIR/buildkit/buildkitd.sock\" and name it with --node", uid)}
	}
	return nil
}
