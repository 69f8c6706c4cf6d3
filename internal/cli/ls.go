package cli

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/spf13/cobra"
)

type lsOptions struct {
	registryFlags
	json bool
}

func newLs(h Host) *cobra.Command {
	var o lsOptions
	cmd := &cobra.Command{
		Use:   "ls REPOSITORY [PATTERN...]",
		Short: "List the tags of a repository",
		Long: `List the tags of a repository or of a layout (oci:DIR), sorted, one a line; with
patterns (as *, 1.?, [a-z]*), those that match one. The list is complete or the
command fails.`,
		Args: atLeast(1, "a repository"),
		RunE: func(cmd *cobra.Command, args []string) error { return runLs(cmd.Context(), h, o, args) },
	}
	f := cmd.Flags()
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	o.registryFlags.add(f)
	return cmd
}

func runLs(ctx context.Context, h Host, o lsOptions, args []string) error {
	l, err := place(args[0])
	if err != nil {
		return err
	}
	if l.Tag != "" || l.Reference.Tag != "" || l.Reference.Digest != "" {
		return usage("%s: want a repository, without a tag", args[0])
	}
	m := o.library(h, warnings(h))
	defer m.Close()
	tags, err := m.Tags(ctx, l, args[1:]...)
	if err != nil {
		return err
	}
	if o.json {
		return render.JSON(h.Out, render.NewTagList(l.String(), tags))
	}
	var b strings.Builder
	for _, t := range tags {
		fmt.Fprintln(&b, render.Line(t))
	}
	_, err = io.WriteString(h.Out, b.String())
	return err
}
