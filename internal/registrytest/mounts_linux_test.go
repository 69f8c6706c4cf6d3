package registrytest_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

func TestWhatAKilledDaemonLeavesMountedIsUnmounted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir, elsewhere := filepath.Join(t.TempDir(), "d"), t.TempDir()
	for _, name := range []string{"source/inner", "tmp/mounted"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bind := func(from, to string) {
		if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
			t.Skipf("nothing can be mounted here: %v", err)
		}
	}
	bind(dir+"/source", dir+"/tmp/mounted")
	bind(dir+"/source/inner", dir+"/tmp/mounted/inner")
	bind(dir+"/source", elsewhere)
	if err := registrytest.RemoveAll(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder: %v", err)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(b), dir) || strings.Contains(string(b), elsewhere) {
		t.Errorf("%v\n%s", err, b)
	}
}
