package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// unknownError is a command or flag that there is not.
type unknownError struct {
	text string
	// like are those that may have been meant.
	like []string
	// help is the command that lists what there is.
	help string
}

func (e *unknownError) Error() string { return e.text }

func (e *unknownError) hint() string {
	if len(e.like) == 0 {
		return "see: " + e.help
	}
	return fmt.Sprintf("did you mean %s? see: %s", strings.Join(e.like, " or "), e.help)
}

// unknownCommand is the error of a word that is no command of cmd.
func unknownCommand(cmd *cobra.Command, word string) error {
	return &unknownError{
		text: fmt.Sprintf("unknown command %q", word), like: similar(word, cmd.Commands()), help: cmd.CommandPath() + " --help",
	}
}

// similar are the names of commands that are like a word.
func similar(word string, among []*cobra.Command) []string {
	c := &cobra.Command{SuggestionsMinimumDistance: 2}
	c.AddCommand(among...)
	return c.SuggestionsFor(word)
}

// onlyCommands are the arguments of a command that has only others below it.
func onlyCommands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return nil
}

// flagError makes an error of a flag a usage error.
func flagError(cmd *cobra.Command, err error) error {
	var absent *pflag.NotExistError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &absent):
		return &unknownError{text: err.Error(), like: similarFlags(cmd, absent.GetSpecifiedName()), help: cmd.CommandPath() + " --help"}
	case errors.As(err, &bad):
		return usage("--%s %q: %w", bad.GetFlag().Name, redact.Word(bad.GetValue()), bad.Unwrap())
	}
	return usage("%w", err)
}

func similarFlags(cmd *cobra.Command, name string) []string {
	if len(name) == 1 {
		return nil // of a shorthand nearly every name is as far away
	}
	var all []*cobra.Command
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all = append(all, &cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
		}
	})
	var out []string
	for _, s := range similar(name, all) {
		out = append(out, "--"+s)
	}
	return out
}

// strictHelp makes cobra's help command fail for what is no command.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	for _, c := range root.Commands() {
		if c.Name() != "help" {
			continue
		}
		show := c.Run
		c.Run, c.RunE = nil, func(c *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err == nil && len(rest) > 0 && found.HasSubCommands() {
				return unknownCommand(found, rest[0])
			}
			show(c, args)
			return nil
		}
	}
}
