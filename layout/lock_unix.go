//go:build unix && !solaris && !aix

package layout

import (
	"errors"
	"os"
	"syscall"
)

// tryLock takes an exclusive lock that ends when f is closed. It is false while
// somebody else holds it.
func tryLock(f *os.File) (bool, error) {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
