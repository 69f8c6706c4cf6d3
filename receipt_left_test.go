package manifold_test

import (
	"context"
	"errors"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
)

// TestInterruptPastTheTagLeavesNoLitter: what the tag leads to is not left over,
// though the run has not come to its end.
func TestInterruptPastTheTagLeavesNoLitter(t *testing.T) {
	r := registrytest.Distribution(t)
	sources := eightSources(t, r, "team/app")
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	m := manifold.New(manifold.Options{Report: func(e report.Event) {
		if e.Kind == report.Tag && e.State == report.Done {
			cancel(stopped)
		}
	}})
	made, err := m.Create(ctx, manifold.CreateOptions{Sources: sources, Targets: []ref.Reference{reference(t, r.Reference("team/app", "1"))}})
	if err == nil {
		t.Fatal("not interrupted")
	}
	if got := r.Tags("team/app")["1"]; got != made.Index.Digest {
		t.Fatalf("tag names %q, the test wants %s", got, made.Index.Digest)
	}
	if len(made.Receipt.Written) == 0 || len(made.Receipt.Left) > 0 {
		t.Errorf("written %v, left %v", made.Receipt.Written, made.Receipt.Left)
	}
}
