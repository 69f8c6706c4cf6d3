package buildkit

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/docker/buildx/commands"
	"github.com/docker/buildx/util/logutil"
	"github.com/docker/cli/cli/command"
	"github.com/docker/cli/cli/debug"
	cliflags "github.com/docker/cli/cli/flags"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"

	// The drivers buildx has, so that every builder a user made can be used.
	_ "github.com/docker/buildx/driver/cloud"
	_ "github.com/docker/buildx/driver/docker"
	_ "github.com/docker/buildx/driver/docker-container"
	_ "github.com/docker/buildx/driver/kubernetes"
	_ "github.com/docker/buildx/driver/remote"
	_ "k8s.io/client-go/plugin/pkg/client/auth/oidc"
	// The codec that BuildKit's messages are written for.
	_ "github.com/moby/buildkit/util/grpcutil/encoding/proto"
)

// NewDockerCLI returns docker/cli's view of the user's configuration, contexts
// and credentials, initialised as a standalone buildx initialises it: from the
// DOCKER_* variables, without contacting an engine. Nil streams read and write
// nothing. As in buildx, what tracing complains about is from then on only
// logged with --debug.
func NewDockerCLI(in io.ReadCloser, out, err io.Writer) (*command.DockerCli, error) {
	cli, cerr := command.NewDockerCli(
		command.WithInputStream(orEmpty(in)),
		command.WithOutputStream(orDiscard(out)),
		command.WithErrorStream(orDiscard(err)),
	)
	if cerr != nil {
		return nil, cerr
	}
	otel.SetErrorHandler(debug.OTELErrorHandler)
	flags := pflag.NewFlagSet("docker", pflag.ContinueOnError)
	options := cliflags.NewClientOptions()
	options.InstallFlags(flags)
	options.SetDefaultOptions(flags)
	options.Debug = debug.IsEnabled()
	if cerr := cli.Initialize(options); cerr != nil {
		return nil, cerr
	}
	return cli, nil
}

func orEmpty(in io.ReadCloser) io.ReadCloser {
	if in == nil {
		return io.NopCloser(eof{})
	}
	return in
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// Command is buildx's build command, or bake. Its flags are shared, not copied: once
// they are parsed, buildx's own command is set up with them too, so [Command.Run]
// needs no arguments rebuilt, and flags of others in the same set never reach
// it. A Command is good for one parse.
type Command struct {
	cli   *command.DockerCli
	build *cobra.Command
	flags *pflag.FlagSet
}

// NewCommand takes the build command out of buildx's command tree.
//
// Building that tree has side effects on the process's logrus logger: it gets
// buildx's formatter ("WARNING: text") and filters for noisy messages.
// Both are wanted, as BuildKit's client logs through it and takes no other
// logger for its session; the filters are added once however often NewCommand
// is called. The defaults of --builder,
// --platform and --debug come from BUILDX_BUILDER, DOCKER_DEFAULT_PLATFORM and
// DEBUG, as in buildx.
func NewCommand(cli *command.DockerCli) (*Command, error) { return newCommand(cli, "build") }

func newCommand(cli *command.DockerCli, name string) (*Command, error) {
	root := newBuildxRoot(cli)
	i := slices.IndexFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("buildx: has no %s command", name)
	}
	c := &Command{cli: cli, build: root.Commands()[i], flags: pflag.NewFlagSet(name, pflag.ContinueOnError)}
	c.flags.AddFlagSet(c.build.Flags())
	c.flags.AddFlagSet(root.PersistentFlags())
	rememberLegacy(c.flags)
	return c, nil
}

// Flags is every flag of "buildx build", hidden ones included, with --builder
// and --debug of its root.
func (c *Command) Flags() *pflag.FlagSet { return c.flags }

// CLI is the configuration that the command was made with.
func (c *Command) CLI() *command.DockerCli { return c.cli }

// run is buildx's command with the flags as parsed. The context replaces the
// one that buildx would make, which takes the process's signals over.
func (c *Command) run(ctx context.Context, contextPath string) error {
	c.enableDebug()
	c.build.SetContext(ctx)
	return c.build.RunE(c.build, []string{contextPath})
}

func (c *Command) enableDebug() {
	if on, err := c.flags.GetBool("debug"); err == nil && on {
		debug.Enable()
	}
}

// newBuildxRoot keeps the hooks of the standard logger from piling up.
func newBuildxRoot(cli *command.DockerCli) *cobra.Command {
	logger := logrus.StandardLogger()
	hooks := logger.ReplaceHooks(logrus.LevelHooks{})
	root := commands.NewRootCmd("buildx", false, cli)
	// The server of the session says so of every upload that a build's end cuts
	// off, and of errors that the build returns anyway.
	logger.AddHook(logutil.NewFilter([]logrus.Level{logrus.ErrorLevel}, "(*service).Write failed"))
	for level, added := range logger.ReplaceHooks(logrus.LevelHooks{}) {
		for _, hook := range added {
			if !hasHook(hooks[level], hook) {
				hooks[level] = append(hooks[level], hook)
			}
		}
	}
	logger.ReplaceHooks(hooks)
	return root
}

func hasHook(hooks []logrus.Hook, hook logrus.Hook) bool {
	return slices.ContainsFunc(hooks, func(h logrus.Hook) bool {
		return fmt.Sprintf("%T", h) == fmt.Sprintf("%T", hook)
	})
}

// legacyResources are buildx's hidden flags that stand for --resource KEY=VALUE.
// Their values in buildx can be set but not read.
func legacyResources() []string {
	return []string{"memory", "memory-swap", "cpu-shares", "cpu-period", "cpu-quota", "cpuset-cpus", "cpuset-mems"}
}

// readable is a flag value that can be read back.
type readable struct {
	pflag.Value
	last string
}

func (r *readable) Set(s string) error {
	if err := r.Value.Set(s); err != nil {
		return err
	}
	r.last = s
	return nil
}

func (r *readable) String() string { return r.last }

func rememberLegacy(flags *pflag.FlagSet) {
	for _, name := range legacyResources() {
		if f := flags.Lookup(name); f != nil {
			f.Value = &readable{Value: f.Value}
		}
	}
}
