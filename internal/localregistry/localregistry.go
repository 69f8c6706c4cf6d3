// Package localregistry is a registry on this machine: the handlers of CNCF
// Distribution v3 over a directory, in this process.
//
// It is what "manifold serve" runs, and what tests publish to. Content outlives
// the server; manifests, tags and blobs can be deleted. It speaks plain HTTP
// without credentials and therefore refuses, unless told otherwise, to listen
// anywhere but on the loopback interface. It exports no telemetry, serves no
// debug address and writes nothing to standard output or standard error.
//
// This is the only package that may import distribution/v3.
//
// Read localregistry.go first, then config.go (which of the registry's features
// are on) and logging.go (how its log reaches a slog.Logger).
package localregistry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/distribution/distribution/v3/registry/handlers"
)

// DefaultAddress is listened on when [Options] name no address.
const DefaultAddress = "127.0.0.1:5000"

// grace is how long requests under way may take when the server is closed. A
// layer that is still moving after that is sent again by its client.
const grace = 3 * time.Second

// Options say where the registry listens and keeps its content. Dir is the only
// field that has to be set.
type Options struct {
	// Address is host:port, DefaultAddress when empty. Port 0 takes a free one.
	Address string
	// AllowRemote permits an Address that other machines can reach. Anyone who
	// reaches it may then read and write everything.
	AllowRemote bool
	// Dir holds the content, in Distribution's own layout. It is created.
	Dir string
	// ReadOnly refuses uploads and deletions with 405.
	ReadOnly bool
	// Log receives what the registry says, a line per request at level Info.
	// Nil drops it.
	Log *slog.Logger
}

// Server is a registry that is listening.
type Server struct {
	addr string
	http *http.Server
	app  *handlers.App
	done chan struct{}
	err  error // set before done is closed
}

// Serve runs a registry until ctx is done, then closes it and returns nil. The
// error is an [*Error].
func Serve(ctx context.Context, o Options) error {
	s, err := Start(ctx, o)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-s.done:
	}
	return s.Close()
}

// Start listens and returns; the registry answers from then on until it is
// closed. ctx bounds the start alone. The error is an [*Error]: an address that
// others can reach, one that is in use, a directory that cannot be written.
func Start(ctx context.Context, o Options) (*Server, error) {
	ln, err := listen(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := prepare(o.Dir, o.ReadOnly); err != nil {
		return nil, errors.Join(err, ln.Close())
	}
	return serve(ln, o), nil
}

func serve(ln net.Listener, o Options) *Server {
	// The registry's own context, not the caller's: it ends with Close, so that
	// requests under way can finish.
	base := withLogger(context.Background(), o.Log)
	s := &Server{
		addr: ln.Addr().String(),
		app:  handlers.NewApp(base, configuration(o)),
		done: make(chan struct{}),
	}
	s.http = &http.Server{
		Handler:           s.app,
		BaseContext:       func(net.Listener) context.Context { return base },
		ErrorLog:          errorLog(o.Log),
		ReadHeaderTimeout: time.Minute,
	}
	go s.run(ln)
	return s
}

func (s *Server) run(ln net.Listener) {
	defer close(s.done)
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		s.err = &Error{Object: s.addr, Err: err}
	}
}

// Addr is host:port as it can be dialled and written in a reference.
func (s *Server) Addr() string { return s.addr }

// Close stops listening, gives requests under way a few seconds, and returns
// when nothing runs any more. It may be called again. The error is an [*Error]
// when the server had stopped by itself.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		_ = s.http.Close() // what is still open did not finish in time
	}
	<-s.done
	_ = s.app.Shutdown() // fails only for a pull-through cache
	return s.err
}
