package registry

import (
	"errors"
	"net"
)

// Unreachable reports whether no connection to the host came about: nobody
// listens, there is no way, or [HostUnknown].
func Unreachable(err error) bool {
	var e *Error
	var dial *net.OpError
	return HostUnknown(err) || errors.As(err, &e) && e.Status == 0 && errors.As(e.Cause, &dial) && dial.Op == "dial"
}

// HostUnknown reports whether the name of the host was not resolved.
func HostUnknown(err error) bool {
	var e *Error
	var name *net.DNSError
	return errors.As(err, &e) && e.Status == 0 && errors.As(e.Cause, &name)
}
