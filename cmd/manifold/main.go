// Command manifold builds multi-platform images on native nodes and publishes
// them as exactly one index.
//
// This file holds signals, streams and the exit code; the commands are in
// internal/cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/manifold-oci/manifold/internal/cli"
)

// version is set at link time.
var version = "dev"

func main() { os.Exit(run()) }

func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		cancel(&cli.SignalError{Signal: s})
		signal.Stop(signals) // a second one ends the process at once
	}()
	executable, _ := os.Executable()
	return cli.Run(ctx, cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env: os.LookupEnv, Executable: executable, Version: version,
	}, os.Args[1:])
}
