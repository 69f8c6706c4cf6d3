package buildkit

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/grpcerrors"
	"google.golang.org/grpc/codes"
)

const (
	// watchMisses is how many questions in a row a node leaves unanswered before
	// it counts as lost: its line may be full with what it is sent.
	watchMisses = 2
	// watchFloor bounds the time for an answer from below: a node at work answers
	// more slowly than one that has nothing to do.
	watchFloor = 2 * time.Second
)

// watch asks a node that builds, now and then, whether it is there. BuildKit's
// client does not: when a machine loses its power or its network nothing ends the
// connection to it, and a build there would be waited for as long as the system
// keeps that, over ssh for hours.
type watch struct {
	ask     func(context.Context) error
	timeout time.Duration // for an answer, and between two questions
	seen    atomic.Int64  // reports of the node's progress, as good as answers
}

// watched is ctx until the node is lost; its cause is a *build.UnreachableError
// then. The writer is to be used for the node's progress.
func (p *port) watched(ctx context.Context, progress progress.Writer) (context.Context, progress.Writer, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	c, err := p.machine.Driver.Client(context.WithoutCancel(ctx))
	if err != nil { // then there is no build to watch
		return ctx, progress, cancel
	}
	w := &watch{timeout: p.patience(), ask: func(ctx context.Context) error {
		_, err := c.ListWorkers(ctx)
		return err
	}}
	go func() {
		if waited, err := w.run(ctx); err != nil {
			cancel(&build.UnreachableError{Node: p.Name(), Endpoint: p.Endpoint(), Waited: waited, Err: err})
		}
	}()
	return ctx, lively{progress, w}, cancel
}

// run returns how long the node has been silent and what the last question ended
// with when the node is lost, nil when ctx ends.
func (w *watch) run(ctx context.Context) (time.Duration, error) {
	for {
		select {
		case <-ctx.Done():
			return 0, nil
		case <-time.After(w.timeout):
		}
		asked, last := time.Now(), w.miss(ctx)
		for misses := 1; last != nil; misses++ {
			if misses == watchMisses {
				return time.Since(asked), last
			}
			last = w.miss(ctx)
		}
	}
}

// miss asks once. Any answer will do, also an error: that ends the build by
// itself.
func (w *watch) miss(ctx context.Context) error {
	before := w.seen.Load()
	timed, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	err := w.ask(timed)
	if timed.Err() == nil || ctx.Err() != nil || w.seen.Load() != before {
		return nil
	}
	return err
}

// LostError reports a node whose connection broke while it built.
type LostError struct{ Err error }

func (e *LostError) Error() string { return "the connection to the node broke: " + e.Err.Error() }

func (e *LostError) Unwrap() error { return e.Err }

// lost returns an error if err is that of a node which is gone by now; what it was
// building has not failed. A registry that a node does not reach looks the same,
// but for that the node answers.
func (p *port) lost(ctx context.Context, targets []target, err error) error {
	if grpcerrors.Code(err) != codes.Unavailable {
		return nil
	}
	if p.answers(ctx) {
		return nil
	}
	var platform *oci.Platform
	if len(targets) == 1 {
		platform = &targets[0].platform
	}
	return p.fault(platform, &LostError{Err: err})
}

// answers asks a node whether it is there. Any answer will do, also an error; a
// connection that is refused is none.
func (p *port) answers(ctx context.Context) bool {
	c, err := p.machine.Driver.Client(context.WithoutCancel(ctx))
	if err != nil {
		return false
	}
	timed, cancel := context.WithTimeout(ctx, p.patience())
	defer cancel()
	_, err = c.ListWorkers(timed)
	return timed.Err() == nil && grpcerrors.Code(err) != codes.Unavailable
}

// patience is how long a node that builds may take to answer.
func (p *port) patience() time.Duration { return max(p.nodes.options.Timeout, watchFloor) }

// lively tells the watch of progress.
type lively struct {
	progress.Writer
	watch *watch
}

func (l lively) Write(s *client.SolveStatus) {
	l.watch.seen.Add(1)
	l.Writer.Write(s)
}
