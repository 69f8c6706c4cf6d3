// Command manifold builds multi-platform images on native nodes and publishes
// them as exactly one index.
//
// This file holds signals, streams and the exit code; the commands are in
// internal/cli. Under the name docker-manifold the program is a plugin of
// Docker's CLI.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/manifold-oci/manifold/internal/cli"
	"github.com/manifold-oci/manifold/internal/startup"
)

// version is set at link time.
var version = "dev"

func main() {
	startup.Done()
	os.Exit(run())
}

func run() int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	// A reader that goes away is an error of the write; it does not end a publish.
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		cancel(&cli.SignalError{Signal: s})
		signal.Stop(signals) // a second one ends the process at once
	}()
	executable, _ := os.Executable()
	host := cli.Host{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Env: os.LookupEnv, Executable: executable, Version: version,
	}
	if cli.IsPlugin(os.Args[0]) {
		return cli.RunPlugin(ctx, host, os.Setenv, os.Args[1:])
	}
	return cli.Run(ctx, host, os.Args[1:])
}
