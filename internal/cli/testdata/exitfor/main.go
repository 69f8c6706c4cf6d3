// Command exitfor ARCH fails when TARGETARCH is ARCH: a RUN step that fails for
// one platform, in an image that has no shell.
package main

import (
	"fmt"
	"os"
)

func main() {
	if arch := os.Getenv("TARGETARCH"); arch == os.Args[1] {
		fmt.Fprintln(os.Stderr, "no luck on", arch)
		os.Exit(1)
	}
}
