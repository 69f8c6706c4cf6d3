// Package cli is the command line: one file per command, each of which turns
// flags into options, makes one library call, draws the result and returns an
// exit code.
//
// Results go to stdout, everything else to stderr. The package reads nothing
// from its process: streams, environment and arguments come in through [Host],
// so that tests run commands in process. What to do about an error is a hint on
// a line of its own, chosen by the error's type (hints.go).
//
// Read cli.go first, then the file of the command of interest.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/spf13/cobra"
)

// Host is the process that a command runs in.
type Host struct {
	In  io.ReadCloser
	Out io.Writer
	Err io.Writer
	// Env looks up an environment variable.
	Env func(string) (string, bool)
	// Executable is the path of this binary; its folder may hold buildkitd.
	Executable string
	// Version is what "manifold version" prints.
	Version string
	// Name is how help calls this program, "manifold" when empty.
	Name string
}

func (h Host) getenv(key string) string {
	v, _ := h.Env(key)
	return v
}

// Exit codes, in the help of every command.
const (
	ExitDone         = 0
	ExitFailed       = 1
	ExitUsage        = 2
	ExitFaults       = 3
	ExitPrecondition = 4
	exitSignalBase   = 128
)

const exitHelp = `
Exit codes:
  0  done and read back
  1  failed
  2  usage
  3  verify found faults
  4  a precondition did not hold (expected digest, lost race, immutable tag)
  130, 143  interrupted`

// exitError carries an exit code; silent errors have been printed already.
type exitError struct {
	code   int
	silent bool
	err    error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{code: ExitUsage, err: fmt.Errorf(format, args...)}
}

// SignalError is the cause with which main cancels the context on a signal.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return e.Signal.String() }

// Run runs the command line and returns the exit code.
func Run(ctx context.Context, h Host, args []string) int {
	cmd := newRoot(h, args)
	cmd.SetArgs(args)
	cmd.SetIn(h.In)
	cmd.SetOut(h.Out)
	cmd.SetErr(h.Err)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return ExitDone
	}
	if !saidAlready(err) {
		printError(h.Err, err)
	}
	return exitCode(ctx, err)
}

// saidAlready reports an exit code alone: a check that found something has
// printed it.
func saidAlready(err error) bool {
	var exit *exitError
	var answer *buildkit.ExitError
	return errors.As(err, &exit) && exit.silent || errors.As(err, &answer) && answer.Err == nil
}

func exitCode(ctx context.Context, err error) int {
	var signal *SignalError
	if errors.As(context.Cause(ctx), &signal) || errors.As(err, &signal) {
		if s, ok := signal.Signal.(syscall.Signal); ok {
			return exitSignalBase + int(s)
		}
	}
	var exit *exitError
	if errors.As(err, &exit) {
		return exit.code
	}
	return codeOf(err)
}

func newRoot(h Host, args []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifold",
		Short: "Build multi-platform images on native nodes and publish them as exactly one index",
		Long: `manifold builds a multi-platform image on any number of BuildKit nodes and
publishes it as exactly one index: every child byte for byte, every tag moved
once, and only onto an index that was read back whole.
` + exitHelp,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	if h.Name != "" {
		cmd.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: h.Name}
	}
	cmd.SetFlagErrorFunc(flagError)
	cmd.Version = h.Version
	cmd.SetVersionTemplate("manifold {{.Version}}\n")
	for _, c := range chosen(args) {
		sub := c.make(h)
		codes, ok := sub.Annotations[exitCodes]
		if !ok {
			codes = exitHelp
		}
		sub.Long = longer(sub) + "\n" + codes
		sub.PreRunE = flagGroups
		cmd.AddCommand(sub)
	}
	strictHelp(cmd)
	return cmd
}

// entry is a command that is made only when it is wanted.
type entry struct {
	name string
	make func(Host) *cobra.Command
}

func commands() []entry {
	return []entry{
		{"build", newBuild},
		{"bake", newBake},
		{"node", newNode},
		{"create", newCreate},
		{"copy", newCopy},
		{"tag", newTag},
		{"ls", newLs},
		{"delete", newDelete},
		{"inspect", newInspect},
		{"verify", newVerify},
		{"manifest", newManifest},
		{"plan", newPlan},
		{"apply", newApply},
		{"resume", newResume},
		{"serve", newServe},
		{"version", newVersion},
	}
}

// chosen is the one command that the first argument names, or all of them for
// help and completion: making the flags of build reads Docker's configuration,
// which no other command should wait for.
func chosen(args []string) []entry {
	all := commands()
	if len(args) > 0 {
		for _, e := range all {
			if e.name == args[0] {
				return []entry{e}
			}
		}
	}
	return all
}

func longer(c *cobra.Command) string {
	if c.Long != "" {
		return c.Long
	}
	return c.Short + "."
}

// flagGroups finds flags that exclude each other: cobra does so later, as a
// failure.
func flagGroups(cmd *cobra.Command, _ []string) error {
	if err := cmd.ValidateFlagGroups(); err != nil {
		return usage("%w", err)
	}
	return nil
}

// exactly and atLeast are cobra's argument checks as usage errors.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			return usage("%s wants %s, got %d arguments", cmd.CommandPath(), what, len(args))
		}
		return nil
	}
}

func atLeast(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < n {
			return usage("%s wants %s", cmd.CommandPath(), what)
		}
		return nil
	}
}
