package cli_test

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/cli"
)

// Docker's CLI passes no signals on without a terminal; it closes a socket.
func TestAPluginEndsWhenDockerClosesItsSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "mf") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	out, in := io.Pipe()
	var stderr bytes.Buffer
	h := cli.Host{Out: in, Err: &stderr, Env: func(key string) (string, bool) {
		if key == "DOCKER_CLI_PLUGIN_SOCKET" {
			return socket, true
		}
		return "", false
	}}
	code := make(chan int)
	go func() {
		code <- cli.RunPlugin(t.Context(), h, setenv(t), []string{"manifold", "serve", "--address", "127.0.0.1:0", "--dir", dir})
	}()
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if got := <-code; got != 143 {
		t.Errorf("exit code %d, want 143: %s", got, stderr.String())
	}
}

// Global flags of Docker's CLI are what their variables say.
func TestGlobalFlagsOfDockerBecomeVariables(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want map[string]string
		code int
	}{
		"none":       {[]string{"manifold", "version"}, map[string]string{}, 0},
		"all":        {[]string{"--config", "/c", "-c", "x", "-H", "tcp://h", "-l", "debug", "-D", "--tlsverify", "manifold", "version"}, map[string]string{"DOCKER_CONFIG": "/c", "DOCKER_CONTEXT": "x", "DOCKER_HOST": "tcp://h", "DOCKER_TLS_VERIFY": "1"}, 0},
		"after":      {[]string{"manifold", "--config", "/c", "version"}, map[string]string{}, 2},
		"not known":  {[]string{"--tlskey", "k", "manifold", "version"}, map[string]string{}, 2},
		"no command": {[]string{"version"}, map[string]string{}, 0},
	} {
		got := map[string]string{}
		set := func(k, v string) error { got[k] = v; return nil }
		h := cli.Host{Out: io.Discard, Err: io.Discard, Env: func(string) (string, bool) { return "", false }}
		if code := cli.RunPlugin(t.Context(), h, set, c.args); code != c.code {
			t.Errorf("%s: exit code %d, want %d", name, code, c.code)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func setenv(t *testing.T) func(key, value string) error {
	return func(key, value string) error {
		t.Errorf("sets %s=%s", key, value)
		return nil
	}
}
