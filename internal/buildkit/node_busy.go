package buildkit

import (
	"context"

	controlapi "github.com/moby/buildkit/api/services/control"
)

// Busy counts the builds under way on the node. A node that keeps no history of
// builds (BuildKit before 0.11, old engines) counts as idle.
func (p *port) Busy(ctx context.Context) (int, error) {
	if _, err := p.Platforms(ctx); err != nil {
		return 0, err
	}
	c, err := p.machine.Driver.Client(context.WithoutCancel(ctx))
	if err != nil {
		return 0, nil //nolint:nilerr // it has answered just now; this is about its history
	}
	p.nodes.onClose(c.Close)
	timed, cancel := context.WithTimeout(ctx, p.nodes.options.Timeout)
	defer cancel()
	stream, err := c.ControlClient().ListenBuildHistory(timed, &controlapi.BuildHistoryRequest{ActiveOnly: true, EarlyExit: true})
	if err != nil {
		return 0, nil //nolint:nilerr // as above
	}
	return countActive(stream.Recv), nil
}

func countActive(next func() (*controlapi.BuildHistoryEvent, error)) int {
	n := 0
	for {
		e, err := next()
		if err != nil {
			return n
		}
		if e.Type == controlapi.BuildHistoryEventType_STARTED {
			n++
		}
	}
}
