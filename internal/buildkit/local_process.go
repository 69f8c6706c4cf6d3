package buildkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// tailSize is how much of a log an error shows, in bytes.
const tailSize = 4 << 10

// process is a child that was started here and is stopped by its handle, never
// by a name.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when the child is gone and err is set
	err  error
	tail *tail
}

// startProcess starts cmd so that it ends with this process. Linux ties that to
// the thread that made the child, which therefore stays until the child ended.
func startProcess(cmd *exec.Cmd, log io.Writer) (*process, error) {
	p := &process{cmd: cmd, done: make(chan struct{}), tail: &tail{log: log}}
	cmd.Stdout, cmd.Stderr = p.tail, p.tail
	cmd.SysProcAttr = endWithParent()
	// A build step that outlives a killed buildkitd holds its output open.
	cmd.WaitDelay = time.Second
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// stop asks the child to end and kills it after grace.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(terminate) // it may be gone already
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// tail passes a log on and keeps its end.
type tail struct {
	log io.Writer
	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	if t.log != nil {
		// A log that cannot be written must not end the child.
		_, _ = t.log.Write(b)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.buf)
}

// lockState takes the state directory for this run, waiting for another one to
// end.
func lockState(ctx context.Context, o LocalOptions) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(o.StateDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("local buildkitd: %w", err)
	}
	for waited := false; ; waited = true {
		free, err := tryLock(f)
		if free {
			return f, nil
		}
		if err == nil && !waited && o.Waiting != nil {
			o.Waiting(o.StateDir)
		}
		if err == nil {
			err = pause(ctx)
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("local buildkitd: %s: %w", o.StateDir, err)
		}
	}
}

func pause(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(askEvery):
		return nil
	}
}
