package layout

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestPipeIsNoArchiveAndIsNotWaitedFor(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.tar")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	_, docker := OpenDockerArchive(pipe)
	_, oci := openTar(pipe)
	for _, err := range []error{docker, oci} {
		if err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("got %v", err)
		}
	}
}
