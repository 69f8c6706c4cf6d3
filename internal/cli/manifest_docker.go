package cli

import (
	"fmt"

	"github.com/manifold-oci/manifold/plan"
	"github.com/spf13/cobra"
)

// The commands of "manifest" fail as Docker's do: its words on stderr without a
// mark before them, 125 for flags, 1 for everything else.

const (
	exitDockerFailed = 1
	exitDockerFlags  = 125
)

// exitCodes is the annotation of a command with exit codes of its own.
const exitCodes = "exit codes"

const dockerExitHelp = `
Exit codes, those of docker manifest:
  0  done and read back
  1  failed, or a wrong number of arguments
  4  a precondition of --expect or --no-clobber did not hold
  125  a flag that is not known or not read
  130, 143  interrupted`

// dockerErrors prints the error of a command as Docker does.
func dockerErrors(h Host, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := run(cmd, args)
		if err == nil {
			return nil
		}
		_, _ = fmt.Fprintln(h.Err, printable(err))
		if hint := hintFor(err); hint != "" {
			_, _ = fmt.Fprintf(h.Err, "hint: %s\n", hint)
		}
		code := exitDockerFailed
		if is[*plan.PreconditionError](err) { // of flags that Docker does not have
			code = ExitPrecondition
		}
		return &exitError{code: code, silent: true, err: err}
	}
}

func dockerFlagError(h Host) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		_, _ = fmt.Fprintf(h.Err, "%s\n\nUsage:  %s\n\nRun '%s --help' for more information\n", printable(err), cmd.UseLine(), cmd.CommandPath())
		return &exitError{code: exitDockerFlags, silent: true, err: err}
	}
}

// dockerUsage reports arguments that a command does not take.
func dockerUsage(h Host, cmd *cobra.Command, what, see string) error {
	err := fmt.Errorf("%s: %s", cmd.Root().Name(), what)
	_, _ = fmt.Fprintf(h.Err, "%v\n\nUsage:  %s\n\n%s '%s --help' for more information\n", err, cmd.UseLine(), see, cmd.CommandPath())
	return &exitError{code: exitDockerFailed, silent: true, err: err}
}

func dockerNoArgs(h Host) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return dockerUsage(h, cmd, fmt.Sprintf("unknown command: %s %s", cmd.CommandPath(), args[0]), "Run")
	}
}

func dockerExactArgs(h Host, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return dockerUsage(h, cmd, fmt.Sprintf("'%s' requires %d %s", cmd.CommandPath(), n, arguments(n)), "Run")
	}
}

func dockerMinArgs(h Host, n int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= n {
			return nil
		}
		return dockerUsage(h, cmd, fmt.Sprintf("'%s' requires at least %d %s", cmd.CommandPath(), n, arguments(n)), "See")
	}
}

func dockerRangeArgs(h Host, low, high int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) >= low && len(args) <= high {
			return nil
		}
		return dockerUsage(h, cmd, fmt.Sprintf("'%s' requires at least %d and at most %d arguments", cmd.CommandPath(), low, high), "Run")
	}
}

func arguments(n int) string {
	if n == 1 {
		return "argument"
	}
	return "arguments"
}
