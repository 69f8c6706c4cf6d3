package registry

import (
	"context"
	"sync"

	"github.com/manifold-oci/manifold/internal/httpchain"
)

// gate lets the first request of each kind go alone; the others wait for its
// answer. Would all workers of a run start at once, each would meet the same
// challenge and each would ask for a token.
type gate struct {
	mu   sync.Mutex
	keys map[string]*turn
}

type turn struct {
	passed bool
	taken  chan struct{} // holds one value while somebody is out alone
}

// enter returns when a request of this kind may go. The function it returns
// says whether that one was answered, after which nobody waits any more.
func (g *gate) enter(ctx context.Context, key string) (leave func(answered bool), err error) {
	if httpchain.IsFeeding(ctx) {
		return func(bool) {}, nil // the request that it feeds may be out alone
	}
	t := g.turn(key)
	for {
		g.mu.Lock()
		passed := t.passed
		g.mu.Unlock()
		if passed {
			return func(bool) {}, nil
		}
		select {
		case t.taken <- struct{}{}:
			return g.leader(t)
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (g *gate) turn(key string) *turn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.keys == nil {
		g.keys = map[string]*turn{}
	}
	if g.keys[key] == nil {
		g.keys[key] = &turn{taken: make(chan struct{}, 1)}
	}
	return g.keys[key]
}

// leader holds the turn, unless it was passed while waiting for it.
func (g *gate) leader(t *turn) (func(bool), error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if t.passed {
		<-t.taken
		return func(bool) {}, nil
	}
	return func(answered bool) {
		g.mu.Lock()
		t.passed = t.passed || answered
		g.mu.Unlock()
		<-t.taken
	}, nil
}
