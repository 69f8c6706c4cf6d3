//go:build unix

package journal

import (
	"errors"
	"os"
	"syscall"
)

// lock reports whether the file is this process's now. The lock ends with the
// file, or with the process.
func lock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}
