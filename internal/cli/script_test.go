package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/manifold-oci/manifold/internal/cli"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/rogpeppe/go-internal/testscript"
)

// The stories in testdata/script are text: each is named for what it guards and
// has a registry, nodes and images of its own making. Commands of the scripts
// are functions registered with scriptCommands, a file per topic:
//
//	script_registry_test.go  registries, logins, what is stored, requests, faults
//	script_content_test.go   images, indexes, layouts byte by byte
//	script_node_test.go      buildkitd nodes, shared by all scripts
//	script_fault_test.go     nodes that die, registries that are lost, requests that wait
//
// "manifold" is this binary, run again; see manifoldMain.

// scriptCommand is a command of a script. It fails the script through kit.fail.
type scriptCommand func(k *kit, args []string)

var registered = map[string]scriptCommand{}

// scriptCommands registers commands; files do so in the declaration of a blank
// variable.
func scriptCommands(m map[string]scriptCommand) bool {
	for name, c := range m {
		registered[name] = c
	}
	return true
}

var _ = scriptCommands(map[string]scriptCommand{"exits": exits})

func TestMain(m *testing.M) {
	testscript.Main(withNodes{m}, map[string]func(){"manifold": manifoldMain, "docker-manifold": manifoldMain})
}

func TestScripts(t *testing.T) {
	cmds := map[string]func(*testscript.TestScript, bool, []string){}
	for name, c := range registered {
		cmds[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if neg {
				ts.Fatalf("%s does not take !", name)
			}
			k := ts.Value(kitKey{}).(*kit)
			k.ts = ts
			c(k, args)
		}
	}
	testscript.Run(t, testscript.Params{Dir: "testdata/script", Setup: setup, Cmds: cmds, RequireUniqueNames: true})
}

// kit is what one script has made so far.
type kit struct {
	testing.TB
	ts         *testscript.TestScript
	registries map[string]*registrytest.Registry
	contents   map[string]registrytest.Content
	nodeFaults
}

type kitKey struct{}

func (k *kit) fail(format string, args ...any) { k.ts.Fatalf(format, args...) }

// setup gives a script a home of its own and no engine to find.
func setup(env *testscript.Env) error {
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		return err
	}
	home := filepath.Join(env.WorkDir, "home")
	env.Setenv("HOME", home)
	env.Setenv("DOCKER_CONFIG", filepath.Join(home, ".docker"))
	env.Setenv("DOCKER_HOST", "unix://"+filepath.Join(env.WorkDir, "no-engine.sock"))
	env.Setenv("BIN", bin)
	// The folder of the test's own commands is first in PATH.
	own, rest, _ := strings.Cut(env.Getenv("PATH"), string(filepath.ListSeparator))
	env.Setenv("MANIFOLD", filepath.Join(own, "manifold")) // for scripts that change PATH
	env.Setenv("PATH", strings.Join([]string{own, bin, rest, "/usr/sbin", "/sbin"}, string(filepath.ListSeparator)))
	env.Values[kitKey{}] = &kit{
		TB:         env.T().(testing.TB),
		registries: map[string]*registrytest.Registry{},
		contents:   map[string]registrytest.Content{},
	}
	return os.MkdirAll(filepath.Join(home, ".docker"), 0o755)
}

// exits CODE COMMAND ARGS...: runs a command that has to end with an exit code.
func exits(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: exits code command [args...]")
	}
	want, err := strconv.Atoi(args[0])
	k.ts.Check(err)
	err = k.ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == want, err == nil && want == 0:
	case err == nil:
		k.fail("exit code 0, want %d", want)
	default:
		k.fail("%v, want exit code %d", err, want)
	}
}

// manifoldMain is cmd/manifold.
func manifoldMain() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		cancel(&cli.SignalError{Signal: s})
		signal.Stop(signals)
	}()
	executable, _ := os.Executable()
	host := cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env: os.LookupEnv, Executable: executable, Version: "test",
	}
	if cli.IsPlugin(os.Args[0]) {
		os.Exit(cli.RunPlugin(ctx, host, os.Setenv, os.Args[1:]))
	}
	os.Exit(cli.Run(ctx, host, os.Args[1:]))
}

// option splits "key=value".
func option(s string) (key, value string) {
	key, value, _ = strings.Cut(s, "=")
	return key, value
}

// number reads a number of an option.
func (k *kit) number(s string) int {
	n, err := strconv.Atoi(s)
	k.ts.Check(err)
	return n
}
