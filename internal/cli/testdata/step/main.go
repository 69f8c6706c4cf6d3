// Command step is a RUN step for images that have no shell. It writes /made: with
// the processor that it was compiled for, or what its first argument asks for.
// "child" has a process of its own write that, "fail" fails, "wait" never ends.
package main

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	// Exec form knows no variables.
	if len(args) == 1 && args[0] == "with $STEP" {
		args = strings.Fields(os.Getenv("STEP"))
	}
	what := strings.Join(args, " ")
	switch what {
	case "child":
		return exec.Command("/step").Run()
	case "fail":
		return errors.New("no luck on " + runtime.GOARCH)
	case "wait":
		signal.Ignore(syscall.SIGHUP)
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
		return nil
	}
	text, err := made(args)
	if err != nil {
		return err
	}
	return os.WriteFile("/made", []byte(text+"\n"), 0o644)
}

func made(args []string) (string, error) {
	if len(args) == 0 {
		return "made on " + runtime.GOARCH, nil
	}
	switch args[0] {
	case "time": // another one whenever the step runs
		return time.Now().Format(time.RFC3339Nano), nil
	case "cat":
		b, err := os.ReadFile(args[1])
		return string(b), err
	case "grep":
		return grep(args[1], args[2])
	case "size":
		var s syscall.Statfs_t
		err := syscall.Statfs(args[1], &s)
		return fmt.Sprint(int64(s.Blocks) * s.Bsize), err
	case "interfaces":
		dirs, err := filepath.Glob("/sys/class/net/*")
		for i := range dirs {
			dirs[i] = filepath.Base(dirs[i])
		}
		return strings.Join(dirs, " "), err
	case "memory": // the limit, by either version of cgroups
		b, err := os.ReadFile("/sys/fs/cgroup/memory/memory.limit_in_bytes")
		if err != nil {
			b, err = os.ReadFile("/sys/fs/cgroup/memory.max")
		}
		return string(b), err
	case "keys":
		return keys(os.Getenv("SSH_AUTH_SOCK"))
	}
	return "", fmt.Errorf("step: unknown %q", args)
}

// grep returns the lines of a file that hold a text.
func grep(text, file string) (string, error) {
	b, err := os.ReadFile(file)
	lines := slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool { return !strings.Contains(l, text) })
	return strings.Join(lines, "\n"), err
}

// keys asks an ssh agent for its identities (draft-miller-ssh-agent, 4.4) and
// returns the first key.
func keys(socket string) (string, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return "", err
	}
	if _, err := c.Write([]byte{0, 0, 0, 1, 11}); err != nil {
		return "", err
	}
	head := make([]byte, 13) // length, type, number of keys, length of the first
	if _, err := io.ReadFull(c, head); err != nil {
		return "", err
	}
	key := make([]byte, binary.BigEndian.Uint32(head[9:]))
	_, err = io.ReadFull(c, key)
	return base64.StdEncoding.EncodeToString(key), err
}
