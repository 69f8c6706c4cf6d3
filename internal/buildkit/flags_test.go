package buildkit

import (
	"io"
	"strings"
	"testing"

	"github.com/docker/buildx/commands"
	"github.com/docker/cli/cli/command"
	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagCLI is a CLI without the user's configuration that reads stdin from in.
func flagCLI(t *testing.T, in string, out io.Writer) *command.DockerCli {
	t.Helper()
	t.Setenv("BUILDX_CONFIG", t.TempDir())
	cli, err := NewDockerCLI(io.NopCloser(strings.NewReader(in)), out, nil)
	if err != nil {
		t.Fatal(err)
	}
	return cli
}

// parsed is a build command whose flags were given.
func parsed(t *testing.T, cli *command.DockerCli, args ...string) *Command {
	t.Helper()
	c, err := NewCommand(cli)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

type flagFacts struct {
	Name, Shorthand, Usage, Default, NoOpt, Type, Deprecated string
	Hidden                                                   bool
}

func factsOf(sets ...*pflag.FlagSet) map[string]flagFacts {
	out := map[string]flagFacts{}
	for _, set := range sets {
		set.VisitAll(func(f *pflag.Flag) {
			out[f.Name] = flagFacts{f.Name, f.Shorthand, f.Usage, f.DefValue, f.NoOptDefVal, f.Value.Type(), f.Deprecated, f.Hidden}
		})
	}
	return out
}

func TestFlagsAreAllOfBuildxs(t *testing.T) {
	cli := flagCLI(t, "", nil)
	root := commands.NewRootCmd("buildx", false, cli)
	var build *cobra.Command
	for _, c := range root.Commands() {
		if c.Name() == "build" {
			build = c
		}
	}
	want := factsOf(build.Flags(), root.PersistentFlags())
	got := parsed(t, cli).Flags()
	if diff := cmp.Diff(want, factsOf(got)); diff != "" {
		t.Errorf("flags differ from buildx's (-buildx +manifold):\n%s", diff)
	}
	for _, name := range []string{"platform", "push", "iidfile", "secret", "ulimit", "builder", "debug", "memory", "security-opt"} {
		if got.Lookup(name) == nil {
			t.Errorf("--%s is missing", name)
		}
	}
	// The help text of a flag that was wrapped must not show a default either.
	both := pflag.NewFlagSet("build", pflag.ContinueOnError)
	both.AddFlagSet(build.Flags())
	both.AddFlagSet(root.PersistentFlags())
	if diff := cmp.Diff(both.FlagUsages(), got.FlagUsages()); diff != "" {
		t.Errorf("help differs from buildx's (-buildx +manifold):\n%s", diff)
	}
}

func TestNewCommandAddsLoggerHooksOnce(t *testing.T) {
	cli := flagCLI(t, "", nil)
	parsed(t, cli)
	before := len(logrus.StandardLogger().Hooks[logrus.WarnLevel])
	parsed(t, cli)
	if after := len(logrus.StandardLogger().Hooks[logrus.WarnLevel]); before == 0 || after != before {
		t.Errorf("hooks: %d, then %d; want one set", before, after)
	}
}

func TestFlagsOfTwoCommandsAreIndependent(t *testing.T) {
	cli := flagCLI(t, "", nil)
	one, two := parsed(t, cli, "--tag", "a/b:1"), parsed(t, cli)
	if got := two.Flags().Lookup("tag").Value.String(); got != "[]" {
		t.Errorf("second command has the tag %s of the first", got)
	}
	if got := one.Flags().Lookup("tag").Value.String(); got != "[a/b:1]" {
		t.Errorf("first command: %s", got)
	}
}

func TestNewDockerCLIWithoutStreamsReadsNothing(t *testing.T) {
	cli, err := NewDockerCLI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(cli.In()); err != nil || len(b) != 0 {
		t.Errorf("read %q, %v", b, err)
	}
}
