package httpchain

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/manifold-oci/manifold/internal/clock"
)

// Clock tells time and waits. The zero value is the real one; tests pass their
// own.
type Clock struct {
	Now func() time.Time
	// Sleep returns early with the context's error.
	Sleep func(ctx context.Context, d time.Duration) error
}

func (c Clock) withDefaults() Clock {
	switch {
	case c.Now == nil && c.Sleep == nil:
		return Clock{Now: time.Now, Sleep: clock.Sleep}
	case c.Now == nil:
		return skipping(c.Sleep)
	case c.Sleep == nil:
		c.Sleep = clock.Sleep
	}
	return c
}

// skipping is the clock of those who sleep without waiting: the time that they
// were asked to sleep has passed all the same.
func skipping(sleep func(context.Context, time.Duration) error) Clock {
	var skipped atomic.Int64
	return Clock{
		Now: func() time.Time { return time.Now().Add(time.Duration(skipped.Load())) },
		Sleep: func(ctx context.Context, d time.Duration) error {
			skipped.Add(int64(d))
			return sleep(ctx, d)
		},
	}
}
