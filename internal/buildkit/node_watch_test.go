package buildkit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func silentNode(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestNodeThatFallsSilentIsLostAfterTwoQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &watch{timeout: time.Second, ask: func(ctx context.Context) error {
			if asked++; asked < 3 {
				return nil
			}
			return silentNode(ctx)
		}}
		start := time.Now()
		waited, err := w.run(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || waited != 2*time.Second || asked != 4 {
			t.Errorf("%v after %s of silence and %d questions", err, waited, asked)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("lost after %s", took)
		}
	})
}

func TestNodeThatAnswersOrReportsIsNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		w := &watch{timeout: time.Second}
		w.ask = func(ctx context.Context) error {
			switch asked++; asked % 4 {
			case 0: // late, but what it builds goes on
				w.seen.Add(1)
				return silentNode(ctx)
			case 1: // late once
				return silentNode(ctx)
			case 2:
				return nil
			default: // the connection broke: the build has that from elsewhere
				return errors.New("connection refused")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := w.run(ctx); err != nil || asked < 20 {
			t.Errorf("%v after %d questions", err, asked)
		}
	})
}

func TestWatchEndsWithTheBuild(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{timeout: time.Nanosecond, ask: func(context.Context) error {
		cancel()
		return ctx.Err()
	}}
	if _, err := w.run(ctx); err != nil {
		t.Error(err)
	}
}
