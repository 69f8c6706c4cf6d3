package registry

import (
	"errors"
	"net"
	"testing"
)

func TestUnreachableIsNoConnectionAtAll(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x"}}
	for _, c := range []struct {
		err                  error
		unreachable, unknown bool
	}{
		{&Error{Cause: refused}, true, false},
		{&Error{Cause: unknown}, true, true},
		{&Error{Cause: &net.OpError{Op: "read", Err: errors.New("reset")}}, false, false},
		{&Error{Status: 401}, false, false},
		{&Error{}, false, false},
		{refused, false, false}, // of somebody else
	} {
		if Unreachable(c.err) != c.unreachable || HostUnknown(c.err) != c.unknown {
			t.Errorf("%v: %v, %v", c.err, Unreachable(c.err), HostUnknown(c.err))
		}
	}
}
