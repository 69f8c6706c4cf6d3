package httpchain

import (
	"context"
	"time"
)

// Clock tells time and waits. The zero value is the real one; tests pass their
// own.
type Clock struct {
	Now func() time.Time
	// Sleep returns early with the context's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (c Clock) withDefaults() Clock {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Sleep == nil {
		c.Sleep = sleep
	}
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
