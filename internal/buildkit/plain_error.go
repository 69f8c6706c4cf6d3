package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docker/buildx/util/cobrautil"
	"github.com/docker/buildx/util/desktop"
	"github.com/docker/cli/cli"
	"github.com/manifold-oci/manifold/internal/printable"
	solvererrdefs "github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/sourcepolicy/policysession"
	"github.com/moby/buildkit/util/grpcerrors"
	"google.golang.org/grpc/codes"
)

// ExitError is a failed build with the exit code that buildx gives it: 100 for
// an internal error of BuildKit, 102 for exhausted resources, 130 when
// cancelled, what a check returned, else 1.
type ExitError struct {
	Code int
	// Err is nil when everything was said already, as after --check.
	Err error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

func exitError(err error) error {
	var usage *UsageError
	var exit *ExitError
	if err == nil || errors.As(err, &usage) || errors.As(err, &exit) {
		return err
	}
	var code cobrautil.ExitCodeError
	if errors.As(err, &code) {
		return &ExitError{Code: int(code)}
	}
	var status cli.StatusError
	if errors.As(err, &status) {
		return &ExitError{Code: max(status.StatusCode, 1), Err: err}
	}
	return &ExitError{Code: exitCode(err), Err: err}
}

func exitCode(err error) int {
	switch grpcerrors.Code(err) {
	case codes.Internal:
		return 100
	case codes.ResourceExhausted:
		return 102
	case codes.Canceled:
		return 130
	}
	if errors.Is(err, context.Canceled) {
		return 130
	}
	return 1
}

// Explain writes what belongs above the line of a build error: messages of a
// policy that denied something, and the lines of the Dockerfile that failed.
func Explain(w io.Writer, err error) {
	text := printable.Writer(w)
	for _, msg := range policysession.DenyMessages(err) {
		if msg.GetMessage() != "" {
			fmt.Fprintf(text, "Policy: %s\n", msg.GetMessage())
		}
	}
	for _, s := range solvererrdefs.Sources(err) {
		// What cannot be shown is only an illustration of the error.
		_ = s.Print(text)
	}
	var details *desktop.ErrorWithBuildRef
	if errors.As(err, &details) {
		_ = details.Print(w)
	}
}
