// Command step is a RUN step for images that have no shell: it writes /made with
// the processor that it was compiled for. Called with "child" it has a process of
// its own write that, with "fail" it fails.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	switch strings.Join(os.Args[1:], " ") {
	case "child":
		return exec.Command("/step").Run()
	case "fail":
		return errors.New("no luck on " + runtime.GOARCH)
	}
	return os.WriteFile("/made", []byte("made on "+runtime.GOARCH+"\n"), 0o644)
}
