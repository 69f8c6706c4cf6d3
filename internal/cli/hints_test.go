package cli

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/registry"
)

// What a name without a registry means, and hosts that do not answer, cannot be
// told by a story: those hosts are not on this machine.
func TestHintsOfRegistriesThatDoNotAnswer(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	unknown := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "x.test"}}
	for _, c := range []struct {
		err  error
		want string
	}{
		{&registry.Error{Reference: "docker.io/library/app:1", Status: 401}, "write HOST/NAME for another registry"},
		{&registry.Error{Reference: "docker.io/library/app:1", Cause: refused}, "write HOST/NAME for another registry"},
		{&registry.Error{Reference: "docker.io/library/app:1", Status: 401, Login: "with the login from x"}, "log in again"},
		{&registry.Error{Reference: "x.test/app:1", Cause: unknown}, "is x.test spelled right"},
		{&registry.Error{Reference: "x.test:5000/app:1", Cause: refused}, "does a registry listen at x.test:5000"},
		{fmt.Errorf("target a: %w", &build.DestinationError{Err: &registry.Error{Reference: "x.test:5000/app:1", Cause: refused}}), "does a registry listen at x.test:5000"},
		{&registry.Error{Reference: "x.test/app:1", Status: 401}, "log in with: docker login x.test"},
	} {
		if got := hintFor(c.err); !strings.Contains(got, c.want) {
			t.Errorf("%v: hint %q", c.err, got)
		}
	}
}
