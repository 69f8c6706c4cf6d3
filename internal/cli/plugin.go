package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/pflag"
)

// Docker's CLI runs a program docker-NAME from one of its folders for the
// command "docker NAME". It asks it once for metadata, and else passes on its
// own arguments, global flags first (docker/cli, cli-plugins).
const (
	pluginName     = "manifold"
	pluginProgram  = "docker-" + pluginName
	pluginMetadata = "docker-cli-plugin-metadata"
	// pluginSocket names a socket that Docker's CLI closes when the plugin shall
	// end: it passes on no signals unless there is a terminal.
	pluginSocket = "DOCKER_CLI_PLUGIN_SOCKET"
)

// metadataOf is what Docker's CLI wants to know of a plugin.
type metadataOf struct {
	SchemaVersion    string
	Vendor           string
	Version          string
	ShortDescription string
	URL              string
}

// IsPlugin reports whether the program of this path is to be a plugin.
func IsPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == pluginProgram
}

// RunPlugin runs the command line as a plugin of Docker's CLI. setenv sets the
// variables that its global flags stand for, for all of the process.
func RunPlugin(ctx context.Context, h Host, setenv func(key, value string) error, args []string) int {
	if len(args) > 0 && args[0] == pluginMetadata {
		return printMetadata(h)
	}
	rest, env, err := pluginArguments(args)
	for key, value := range env {
		err = errors.Join(err, setenv(key, value))
	}
	if err != nil {
		printError(h.Err, err)
		return ExitUsage
	}
	h.Name = "docker " + pluginName
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	endWithDocker(h, cancel)
	return Run(ctx, h, rest)
}

func printMetadata(h Host) int {
	enc := json.NewEncoder(h.Out)
	enc.SetIndent("", "     ")
	err := enc.Encode(metadataOf{
		SchemaVersion: "0.1.0", Vendor: "manifold", Version: h.Version,
		ShortDescription: "Multi-platform images: built natively, published as exactly one index",
		URL:              "https://github.com/manifold-oci/manifold",
	})
	if err != nil {
		return ExitFailed
	}
	return ExitDone
}

// globalFlags are those of Docker's CLI that take a value, with the variable
// that says the same.
var globalFlags = []struct{ long, short, env string }{
	{"config", "", "DOCKER_CONFIG"},
	{"context", "c", "DOCKER_CONTEXT"},
	{"host", "H", "DOCKER_HOST"},
	{"log-level", "l", ""},
}

// pluginArguments takes Docker's global flags and the plugin's name out of the
// arguments. Help and completion have their word before the name:
// "help manifold create". Flags that name certificates of an engine are not
// known here and refused; DOCKER_CERT_PATH says the same.
func pluginArguments(args []string) (rest []string, env map[string]string, err error) {
	f := pflag.NewFlagSet(pluginProgram, pflag.ContinueOnError)
	f.SetInterspersed(false)
	f.SetOutput(io.Discard)
	values := make([]*string, len(globalFlags))
	for i, g := range globalFlags {
		values[i] = f.StringP(g.long, g.short, "", "")
	}
	f.BoolP("debug", "D", false, "")
	verify := f.Bool("tlsverify", false, "")
	help := f.BoolP("help", "h", false, "")
	if err := f.Parse(args); err != nil {
		return nil, nil, &exitError{code: ExitUsage, err: err}
	}
	env = map[string]string{}
	for i, g := range globalFlags {
		if g.env != "" && *values[i] != "" {
			env[g.env] = *values[i]
		}
	}
	if *verify {
		env["DOCKER_TLS_VERIFY"] = "1"
	}
	rest = withoutName(f.Args())
	if *help {
		rest = append([]string{"help"}, rest...)
	}
	return rest, env, nil
}

// withoutName drops the plugin's name where it is the command.
func withoutName(args []string) []string {
	switch {
	case len(args) > 0 && args[0] == pluginName:
		return args[1:]
	case len(args) > 1 && args[1] == pluginName && (args[0] == "help" || strings.HasPrefix(args[0], "__complete")):
		return append([]string{args[0]}, args[2:]...)
	}
	return args
}

// endWithDocker cancels when Docker's CLI closes the plugin's socket, or ends.
func endWithDocker(h Host, cancel context.CancelCauseFunc) {
	path := h.getenv(pluginSocket)
	if path == "" {
		return
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		return // an older CLI has none, and signals still come
	}
	go func() {
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		cancel(&SignalError{Signal: syscall.SIGTERM})
	}()
}
