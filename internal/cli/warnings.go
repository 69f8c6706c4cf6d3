package cli

import (
	"fmt"

	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/report"
)

// warnings returns a sink that prints warnings and waits, and nothing else: for
// commands that only read.
func warnings(h Host) report.Sink {
	return func(e report.Event) {
		switch e.Kind {
		case report.Warning:
			if e.Target != "" {
				_, _ = fmt.Fprintf(h.Err, "warning: %s: %s\n", e.Target, render.Text(e.Text))
				return
			}
			_, _ = fmt.Fprintf(h.Err, "warning: %s\n", render.Text(e.Text))
		case report.Wait:
			_, _ = fmt.Fprintf(h.Err, "waiting %s for %s: %s\n", e.Delay.Round(1e8), e.Target, render.Text(e.Text))
		}
	}
}
