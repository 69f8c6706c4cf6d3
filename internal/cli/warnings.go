package cli

import (
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/report"
)

// warnings returns a sink that prints warnings and waits, and nothing else: for
// commands that only read.
func warnings(h Host) report.Sink { return buildkit.WarningSink(h.Err) }
