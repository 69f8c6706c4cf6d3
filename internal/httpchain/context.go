package httpchain

import "context"

type contextKey int

const (
	onceKey contextKey = iota
	feedingKey
)

// Once marks requests whose outcome is unknown when the answer is lost and
// which must not be repeated blindly, as moving a tag. They are only repeated
// after 429, which says that nothing was done.
func Once(ctx context.Context) context.Context { return context.WithValue(ctx, onceKey, true) }

func isOnce(ctx context.Context) bool { return ctx.Value(onceKey) != nil }

// Feeding marks requests whose answer feeds the body of another request. They
// ride on the slot of that one: would they wait for a slot of their own, as
// many uploads as there are slots could each wait for a download for ever.
func Feeding(ctx context.Context) context.Context { return context.WithValue(ctx, feedingKey, true) }

// IsFeeding reports whether ctx is marked by [Feeding].
func IsFeeding(ctx context.Context) bool { return ctx.Value(feedingKey) != nil }
