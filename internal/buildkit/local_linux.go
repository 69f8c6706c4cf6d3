package buildkit

import (
	"errors"
	"os"
	"syscall"
)

const terminate = syscall.SIGTERM

// endWithParent has the kernel stop the child when this process dies. Its own
// process group keeps a Ctrl-C at the terminal from reaching it before the
// build was cancelled.
func endWithParent() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// tryLock takes an exclusive lock on f, which all handles of this open file
// share, a child's included. It reports false when another has it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
