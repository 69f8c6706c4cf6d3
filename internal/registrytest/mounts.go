package registrytest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// RemoveAll removes the folder of a daemon that has ended, with what it left
// mounted there or from there: one that is killed unmounts nothing, and the mounts
// would outlive the folder.
func RemoveAll(dir string) error {
	var errs []error
	mounts, err := mountsOf(dir)
	errs = append(errs, err)
	for _, m := range slices.Backward(mounts) { // what lies upon another goes first
		errs = append(errs, unmount(m))
	}
	left, err := mountsOf(dir)
	if len(left) > 0 {
		err = fmt.Errorf("%s: still mounted: %v", dir, left)
	}
	return errors.Join(append(errs, err, os.RemoveAll(dir))...)
}

// mountsOf lists the mount points that lie below dir or show something below it.
func mountsOf(dir string) ([]string, error) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for line := range strings.SplitSeq(string(b), "\n") {
		// Number, parent, device, what of it, where.
		f := strings.Fields(line)
		if len(f) > 4 && (strings.HasPrefix(f[3], dir+"/") || strings.HasPrefix(f[4], dir+"/")) {
			out = append(out, f[4])
		}
	}
	return out, err
}
