package buildkit

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/buildkit/client"
)

// helperVariable makes the test binary a program that starts a child, prints a
// line and waits to be killed.
const helperVariable = "MANIFOLD_TEST_HELPER"

// localOptions are those of a real buildkitd; the tests need root and runc.
func localOptions(t *testing.T) LocalOptions {
	t.Helper()
	bin, err := buildkitdBinary()
	if err != nil {
		t.Fatal(err)
	}
	return LocalOptions{
		Buildkitd: bin, Path: os.Getenv("PATH"), StateDir: t.TempDir(),
		Args: []string{"--oci-worker-snapshotter=native"},
	}
}

func startLocal(t *testing.T, ctx context.Context, o LocalOptions) *Local {
	t.Helper()
	l, err := StartLocal(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func gone(t *testing.T, p *process) {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * stopGrace):
		t.Fatal("the process is still there")
	}
}

func TestLocalAnswersAndStopsAndKeepsItsState(t *testing.T) {
	o := localOptions(t)
	l := startLocal(t, t.Context(), o)
	c, err := client.New(t.Context(), l.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	workers, err := c.ListWorkers(t.Context())
	if err != nil || len(workers) != 1 {
		t.Errorf("workers %v, %v", workers, err)
	}
	c.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	gone(t, l.process)
	if _, err := os.Stat(filepath.Join(o.StateDir, "root")); err != nil {
		t.Error(err)
	}
	id := workers[0].ID
	again := startLocal(t, t.Context(), o)
	c, err = client.New(t.Context(), again.Endpoint())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if workers, err = c.ListWorkers(t.Context()); err != nil || workers[0].ID != id {
		t.Errorf("second run does not use the first's state: %v, %v", workers, err)
	}
}

func TestLocalEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	l := startLocal(t, ctx, localOptions(t))
	cancel()
	gone(t, l.process)
}

func TestLocalWithALongStateDirectory(t *testing.T) {
	o := localOptions(t)
	o.StateDir = filepath.Join(o.StateDir, strings.Repeat("d", 120))
	l := startLocal(t, t.Context(), o)
	dir := l.dir
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); dir == "" || err == nil {
		t.Errorf("socket directory %q is left behind", dir)
	}
}

func TestSecondLocalWaitsForTheFirst(t *testing.T) {
	o := localOptions(t)
	first, err := lockState(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	o.Waiting = func(dir string) {
		if calls++; calls > 1 || dir != o.StateDir {
			t.Errorf("call %d for %s", calls, dir)
		}
		first.Close()
	}
	startLocal(t, t.Context(), o)
	if calls != 1 {
		t.Errorf("was told %d times", calls)
	}
}

// A run that was killed leaves a buildkitd that is still stopping.
func TestLockIsHeldByBuildkitdToo(t *testing.T) {
	o := localOptions(t)
	l := startLocal(t, t.Context(), o)
	f, err := os.OpenFile(filepath.Join(o.StateDir, "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if free, err := tryLock(f); free || err != nil {
		t.Errorf("lock is free while buildkitd runs: %v, %v", free, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if free, err := tryLock(f); !free || err != nil {
		t.Errorf("lock is held after Close: %v, %v", free, err)
	}
}

func TestWaitingForTheStateEndsWithTheContext(t *testing.T) {
	o := LocalOptions{StateDir: t.TempDir()}
	first, err := lockState(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	ctx, cancel := context.WithCancel(t.Context())
	o.Waiting = func(string) { cancel() }
	if _, err := lockState(ctx, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v", err)
	}
}

func TestLocalThatDiesShowsItsLog(t *testing.T) {
	o := localOptions(t)
	o.Args = append(o.Args, "--no-such-flag")
	_, err := StartLocal(t.Context(), o)
	var start *StartError
	if !errors.As(err, &start) || !strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("error is %v", err)
	}
}

// signalled tells the test that a child wrote its first line.
type signalled struct{ ready chan struct{} }

func (s signalled) Write(b []byte) (int, error) {
	close(s.ready)
	return len(b), nil
}

func TestStopKillsWhatDoesNotListen(t *testing.T) {
	log := signalled{make(chan struct{})}
	// An ignored signal stays ignored in the program that replaces the shell.
	p, err := startProcess(exec.Command("sh", "-c", "trap '' TERM; echo ready; exec sleep 1000"), log)
	if err != nil {
		t.Fatal(err)
	}
	<-log.ready
	p.stop(time.Millisecond)
	gone(t, p)
	var exit *exec.ExitError
	if !errors.As(p.err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("ended with %v", p.err)
	}
}

// The pipe ends when nobody holds its other side: neither the helper, which is
// killed, nor its child.
func TestChildDiesWithItsParent(t *testing.T) {
	if os.Getenv(helperVariable) != "" {
		child := exec.Command("sleep", "1000")
		child.ExtraFiles = []*os.File{os.NewFile(3, "pipe")}
		if _, err := startProcess(child, nil); err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("started\n")
		select {}
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	helper := exec.Command(os.Args[0], "-test.run=^TestChildDiesWithItsParent$")
	helper.Env = append(os.Environ(), helperVariable+"=1")
	helper.ExtraFiles = []*os.File{write}
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "started\n" {
		t.Errorf("helper said %q, %v", line, err)
	}
	if err := helper.Process.Kill(); err != nil {
		t.Error(err)
	}
	_ = helper.Wait() // it was killed
	if err := read.SetReadDeadline(time.Now().Add(stopGrace)); err != nil {
		t.Fatal(err)
	}
	if _, err := read.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("child outlived its parent: %v", err)
	}
}
