package registrytest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Docker28 starts Debian's docker-registry 2.8.2 as a process, with deletion
// on. The test fails when the program is not installed.
func Docker28(t testing.TB, opts ...Option) *Registry {
	t.Helper()
	program, err := exec.LookPath("docker-registry")
	if err != nil {
		t.Fatalf("docker-registry 2.8 is needed (apt-get install docker-registry): %v", err)
	}
	dir := t.TempDir()
	addr := startDocker28(t, program, writeConfig(t, dir))
	r := newRegistry(t, "docker-2.8", "http://"+addr, Features{
		Mounts: true, ChecksChildren: true, ChecksBlobs: true,
	}, opts)
	r.Dir = dir
	return r
}

func writeConfig(t testing.TB, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yml")
	text := fmt.Sprintf(`version: 0.1
log: {level: info, formatter: json, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: %q}, delete: {enabled: true}, maintenance: {uploadpurging: {enabled: false}}}
http: {addr: "127.0.0.1:0", secret: test}
`, dir)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// startDocker28 returns the address that the registry says it listens on.
func startDocker28(t testing.TB, program, config string) string {
	t.Helper()
	cmd := exec.Command(program, "serve", config)
	cmd.Env = []string{} // REGISTRY_* variables would change the configuration
	// The registry goes with a test binary that is killed.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	drained := make(chan struct{})
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-drained // Wait closes the pipe, so the reader has to be through
		_ = cmd.Wait()
	})
	lines := bufio.NewReader(out)
	addr, said := listeningOn(lines)
	go func() {
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	if addr == "" {
		t.Fatalf("docker-registry does not listen:\n%s", said)
	}
	return addr
}

// listeningOn reads the log until the line that names the address. The address
// is empty when the log ends before, and said is what there was to read.
func listeningOn(lines *bufio.Reader) (addr, said string) {
	for {
		line, err := lines.ReadString('\n')
		said += line
		var entry struct{ Msg string }
		if json.Unmarshal([]byte(line), &entry) == nil {
			if addr, ok := strings.CutPrefix(entry.Msg, "listening on "); ok {
				return addr, said
			}
		}
		if err != nil {
			return "", said
		}
	}
}
