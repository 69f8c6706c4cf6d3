package buildkit

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// --iidfile /dev/stdout must not replace the device.
func TestPipesAreWrittenToAndNotReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, err := range []error{RemoveResult(path), WriteIIDFile(path, "id"), WriteMetadata(path, map[string]any{})} {
		if err != nil {
			t.Error(err)
		}
	}
	got := make([]byte, len("id{}"))
	if _, err := pipe.Read(got); err != nil || string(got) != "id{}" {
		t.Errorf("pipe has %q, %v", got, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode()&fs.ModeNamedPipe == 0 {
		t.Errorf("pipe became %v, %v", st, err)
	}
}
