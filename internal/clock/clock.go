// Package clock waits in a way that a context can end. It holds one function,
// so that every room that repeats something after a pause waits alike.
package clock

import (
	"context"
	"time"
)

// Sleep waits for d, or returns early with the cause of the context's end.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
