package cli_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

var _ = scriptCommands(map[string]scriptCommand{"engine": engine})

// engine NAME [PROGRAM ARG...]: starts a Docker Engine of its own, dockerd of
// PATH unless another program is named, and sets $NAME to its endpoint. The
// script is skipped where there is none, or it cannot run.
func engine(k *kit, args []string) {
	if len(args) < 1 {
		k.fail("usage: engine name [program args...]")
	}
	command := args[1:]
	if len(command) == 0 {
		command = []string{"dockerd", "--storage-driver", "vfs"}
	}
	bin, err := exec.LookPath(command[0])
	if err != nil || os.Geteuid() != 0 {
		k.TB.Skip("needs dockerd and root")
	}
	dir, err := os.MkdirTemp("", "mfd") // the path of a socket has to be short
	k.ts.Check(err)
	host := "unix://" + filepath.Join(dir, "d.sock")
	cmd := exec.Command(bin, append([]string{
		"--host", host, "--data-root", dir + "/data", "--exec-root", dir + "/exec", "--pidfile", dir + "/pid",
		"--iptables=false", "--ip6tables=false", "--bridge=none",
	}, command[1:]...)...)
	stderr, err := cmd.StderrPipe()
	k.ts.Check(err)
	k.ts.Check(cmd.Start())
	ready, ended := make(chan struct{}), make(chan struct{})
	var said strings.Builder
	go func() {
		defer close(ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(&said, lines.Text())
			if strings.Contains(lines.Text(), "API listen on") {
				close(ready)
			}
		}
	}()
	k.ts.Defer(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	select {
	case <-ready:
		k.ts.Setenv(args[0], host)
	case <-ended:
		k.TB.Skipf("dockerd cannot run here:\n%s", said.String())
	}
}
