package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func newVersion(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  exactly(0, "no arguments"),
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(h.Out, "manifold", h.Version)
			return err
		},
	}
}
