package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/manifold-oci/manifold/internal/localregistry"
	"github.com/spf13/cobra"
)

type serveOptions struct {
	address string
	dir     string
	remote  bool
}

func newServe(h Host) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a local registry from a directory",
		Long: `Serve a registry (CNCF Distribution) on loopback, with its storage in a
directory and deletion enabled, until interrupted. Prints the address that it
listens on, on stdout, once it answers.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runServe(cmd.Context(), h, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.address, "address", "127.0.0.1:5000", "Address to listen on; port 0 takes a free one")
	f.StringVar(&o.dir, "dir", "", "Directory of the storage (default: manifold/registry in the user's data directory)")
	f.BoolVar(&o.remote, "allow-remote", false, "Allow an address that other machines reach")
	return cmd
}

func runServe(ctx context.Context, h Host, o serveOptions) error {
	dir := o.dir
	if dir == "" {
		data, err := h.dataDir()
		if err != nil {
			return err
		}
		dir = filepath.Join(data, "registry")
	}
	s, err := localregistry.Start(ctx, localregistry.Options{Address: o.address, Dir: dir, AllowRemote: o.remote})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(h.Out, s.Addr()); err != nil {
		return errors.Join(err, s.Close())
	}
	<-ctx.Done()
	if err := s.Close(); err != nil {
		return err
	}
	// An interrupt is how a registry is stopped: its exit code, but no complaint.
	return &exitError{code: ExitFailed, silent: true, err: context.Cause(ctx)}
}
