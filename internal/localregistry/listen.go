package localregistry

import (
	"context"
	"errors"
	"net"
	"syscall"

	"github.com/manifold-oci/manifold/ref"
)

var (
	// ErrInUse is the cause when something else listens on the address.
	ErrInUse = errors.New("address is in use")
	// ErrRemote is the cause when other machines could reach the address.
	ErrRemote = errors.New("not a loopback address")
	// ErrNoDir is the cause when no directory was given.
	ErrNoDir = errors.New("no directory for the content")
)

// Error says what could not be served: an address or a directory, and why. It
// unwraps to [ErrInUse], [ErrRemote] or [ErrNoDir] where one of them is the
// cause.
type Error struct {
	Object string
	Err    error
}

func (e *Error) Error() string { return e.Object + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

func listen(ctx context.Context, o Options) (net.Listener, error) {
	addr := o.Address
	if addr == "" {
		addr = DefaultAddress
	}
	if !o.AllowRemote && !ref.IsLoopback(addr) {
		return nil, &Error{Object: addr, Err: ErrRemote}
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &Error{Object: addr, Err: ErrInUse}
	}
	if err != nil {
		return nil, &Error{Object: addr, Err: err}
	}
	return ln, nil
}
