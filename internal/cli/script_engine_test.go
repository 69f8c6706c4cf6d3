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

var _ = scriptCommands(map[string]scriptCommand{"engine": engine, "scripts": scripts})

// scripts NAME: sets $NAME to the folder of the tree's scripts.
func scripts(k *kit, args []string) {
	if len(args) != 1 {
		k.fail("usage: scripts name")
	}
	dir, err := filepath.Abs("../../scripts")
	k.ts.Check(err)
	k.ts.Setenv(args[0], dir)
}

// engine NAME [today]: starts a Docker Engine of its own and sets $NAME to its
// endpoint: dockerd of PATH, or today's with containerd's image store, which
// "make engines" builds. The script is skipped where there is none, or it cannot
// run.
func engine(k *kit, args []string) {
	if len(args) < 1 || len(args) > 2 {
		k.fail("usage: engine name [today]")
	}
	dir, err := os.MkdirTemp("", "mfd") // the path of a socket has to be short
	k.ts.Check(err)
	host := "unix://" + filepath.Join(dir, "d.sock")
	cmd := exec.Command("dockerd", "--storage-driver", "vfs")
	if len(args) == 2 {
		cmd = todaysEngine(k, dir)
	}
	if cmd.Err != nil || os.Geteuid() != 0 {
		k.TB.Skip("needs dockerd and root")
	}
	cmd.Args = append(cmd.Args, "--host", host, "--data-root", dir+"/data", "--exec-root", dir+"/exec", "--pidfile", dir+"/pid",
		"--iptables=false", "--ip6tables=false", "--bridge=none")
	// An engine goes with a test binary that is killed, and takes its containerd along.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
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
		k.removeAll(dir)
	})
	select {
	case <-ready:
		k.ts.Setenv(args[0], host)
	case <-ended:
		k.TB.Skipf("dockerd cannot run here:\n%s", said.String())
	}
}

// todaysEngine has its containerd beside it, and starts that itself.
func todaysEngine(k *kit, dir string) *exec.Cmd {
	bin, err := filepath.Abs("../../bin/engines")
	k.ts.Check(err)
	if _, err := os.Stat(filepath.Join(bin, "dockerd")); err != nil {
		k.TB.Skip("make engines builds today's dockerd")
	}
	config := filepath.Join(dir, "daemon.json")
	k.ts.Check(os.WriteFile(config, []byte(`{"features":{"containerd-snapshotter":true}}`), 0o600))
	cmd := exec.Command(filepath.Join(bin, "dockerd"), "--config-file", config)
	cmd.Env = append(os.Environ(), "PATH="+bin+string(filepath.ListSeparator)+os.Getenv("PATH"))
	return cmd
}
