package cli_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

var _ = scriptCommands(map[string]scriptCommand{
	"emulating": emulating,
	"daemon":    daemon,
	"program":   program,
	"sent":      sent,
})

// program NAME ARCH...: compiles testdata/NAME for processors, static; DIR/ARCH
// are the files, $DIR is the name in upper case.
func program(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: program name arch...")
	}
	dir := k.ts.MkAbs("bin-" + args[0])
	for _, arch := range args[1:] {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(dir, arch), "./testdata/"+args[0])
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if out, err := cmd.CombinedOutput(); err != nil {
			k.fail("%v: %s", err, out)
		}
	}
	k.ts.Setenv(strings.ToUpper(args[0]), dir)
}

// emulating NAME kernel|own [PLATFORM,...]: a buildkitd that runs programs for
// arm64 by emulation; $NAME is its endpoint. With kernel the kernel starts qemu
// for them (binfmt_misc), in a namespace of the node's own: nothing is registered
// for the machine. With own it is BuildKit that starts qemu, as in its images, and
// the node lists only what it is told. The script is skipped where the kernel has
// no such namespaces (they came with Linux 6.7).
func emulating(k *kit, args []string) {
	if len(args) < 2 || len(args) > 3 {
		k.fail("usage: emulating name kernel|own [platforms]")
	}
	qemu, err := exec.LookPath("qemu-aarch64-static")
	k.ts.Check(err)
	dir, err := os.MkdirTemp("", "mfe") // the path of a socket has to be short
	k.ts.Check(err)
	k.ts.Defer(func() { k.removeAll(dir) })
	n, err := newNode(dir, strings.Join(args[2:], ""))
	k.ts.Check(err)
	switch args[1] {
	case "kernel":
		inKernel(n.cmd, qemu, dir)
	case "own":
		k.ts.Check(os.Symlink(qemu, filepath.Join(dir, "buildkit-qemu-aarch64")))
		n.cmd.Env = append(n.cmd.Env, "PATH="+dir+string(filepath.ListSeparator)+k.ts.Getenv("PATH"))
	default:
		k.fail("emulating: unknown %q", args[1])
	}
	k.serve(args[0], n)
}

// daemon NAME PLATFORMS [FLAG...]: a buildkitd of this script alone, with flags.
func daemon(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: daemon name platforms [flag...]")
	}
	dir, err := os.MkdirTemp("", "mfn")
	k.ts.Check(err)
	k.ts.Defer(func() { k.removeAll(dir) })
	n, err := newNode(dir, args[1])
	k.ts.Check(err)
	n.cmd.Args = append(n.cmd.Args, args[2:]...)
	k.serve(args[0], n)
}

// serve runs a node until the script ends and sets its variable.
func (k *kit) serve(name string, n *buildNode) {
	err := n.start()
	if errors.Is(err, syscall.EPERM) && n.cmd.SysProcAttr.Cloneflags != 0 {
		k.TB.Skipf("user namespaces cannot be made here: %v", err)
	}
	if err != nil && n.cmd.ProcessState.ExitCode() == noNamespace {
		k.TB.Skipf("binfmt_misc has no namespaces here: %v", err)
	}
	k.ts.Check(err)
	k.ts.Defer(func() { n.end(syscall.SIGTERM) })
	k.ts.Setenv(name, n.endpoint)
}

// noNamespace is how a node ends when binfmt_misc cannot be mounted.
const noNamespace = 77

// aarch64 is the line for binfmt_misc: the head of an ELF file for that processor.
// F opens the interpreter now, so that it is there in every root.
const aarch64 = `:manifold-aarch64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00:` +
	`\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:`

// inKernel makes a node start in user and mount namespaces that have a
// binfmt_misc of their own. A runc that is root there only has no say over
// cgroups, which it takes from USER.
func inKernel(cmd *exec.Cmd, qemu, dir string) {
	binfmt := "/proc/sys/fs/binfmt_misc"
	script := fmt.Sprintf(`mount -t binfmt_misc binfmt_misc %s || exit %d
printf '%%s' '%s%s:F' >%s/register
exec "$@"`, binfmt, noNamespace, aarch64, qemu, binfmt)
	cmd.Args = append([]string{"sh", "-ec", script, "sh"}, append(slices.Clone(cmd.Args), "--rootless")...)
	cmd.Path = "/bin/sh"
	cmd.Env = append(cmd.Env, "USER=builder", "HOME="+dir, "XDG_RUNTIME_DIR="+dir, "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids,
		GidMappingsEnableSetgroups: true, Pdeathsig: syscall.SIGKILL,
	}
}

// sent NAME REPOSITORY: prints who sent how many bytes of content and manifests
// to a repository, as "manifold 1234" and "node 5678".
func sent(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: sent registry repository")
	}
	total := map[string]int64{"manifold": 0, "node": 0}
	for _, q := range k.registry(args[0]).Log() {
		if !strings.HasPrefix(q.Path, "/v2/"+args[1]+"/") {
			continue
		}
		switch {
		case strings.HasPrefix(q.Agent, "manifold"):
			total["manifold"] += q.Sent
		case strings.HasPrefix(q.Agent, "buildkit"):
			total["node"] += q.Sent
		}
	}
	fmt.Fprintf(k.ts.Stdout(), "manifold %d\nnode %d\n", total["manifold"], total["node"])
}
