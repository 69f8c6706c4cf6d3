//go:build !linux

package buildkit

import (
	"errors"
	"os"
	"syscall"
)

var terminate = os.Interrupt

func endWithParent() *syscall.SysProcAttr { return nil }

// tryLock is not reached: StartLocal refuses these systems first.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
