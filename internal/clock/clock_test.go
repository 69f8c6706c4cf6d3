package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSleepEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("over")
	cancel(over)
	if err := Sleep(ctx, time.Hour); !errors.Is(err, over) {
		t.Errorf("err %v", err)
	}
	if err := Sleep(t.Context(), 0); err != nil {
		t.Errorf("err %v", err)
	}
}
