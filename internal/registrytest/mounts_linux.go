package registrytest

import (
	"os"
	"syscall"
)

// unmount detaches a mount, though something may still use it.
func unmount(path string) error {
	return os.NewSyscallError("umount "+path, syscall.Unmount(path, syscall.MNT_DETACH))
}
