package buildkit

import (
	"fmt"
	"io"
	"time"

	"github.com/manifold-oci/manifold/internal/printable"
	"github.com/manifold-oci/manifold/report"
)

// WarningSink writes warnings and waits as lines, and nothing else: for where no
// progress is wanted, which is not to say that a platform may be lost in silence.
func WarningSink(w io.Writer) report.Sink {
	w = printable.Writer(w)
	return func(e report.Event) {
		switch {
		case e.Kind == report.Wait:
			_, _ = fmt.Fprintf(w, "waiting %s for %s: %s\n", e.Delay.Round(100*time.Millisecond), e.Target, e.Text)
		case e.Kind == report.Warning:
			_, _ = fmt.Fprintf(w, "warning: %s\n", warningText(e))
		}
	}
}
