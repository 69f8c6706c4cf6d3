package buildkit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/driver"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
)

// retryPause is between two attempts to reach a remote node, which may be
// starting.
const retryPause = 250 * time.Millisecond

// machine is one node, whatever is built on it.
type machine struct {
	builder.Node
	name, endpoint string

	mu     sync.Mutex
	listed []oci.Platform // what it reports; nil until it answered
}

// DriverError reports a node that cannot build what manifold publishes.
type DriverError struct {
	Node   string
	Driver string
	Reason string
}

func (e *DriverError) Error() string {
	return fmt.Sprintf("node %s, %s driver: %s", e.Node, e.Driver, e.Reason)
}

// Build returns the nodes as ports that build what spec asks for and show
// their progress on w. Nodes push by digest and reg reads back what they
// pushed; with a nil reg, or no name to publish, nothing is pushed and
// everything comes through the client.
func (n *Nodes) Build(spec *Spec, reg Registry, w progress.Writer) []build.Node {
	if w == nil {
		w = silent{}
	}
	if n.options.NoDefaultAttestations {
		spec = spec.withoutDefaultAttestations()
	}
	inputs := &stdin{dir: n.options.TempDir}
	n.onClose(inputs.Close)
	warnSplitCache(spec, n.options.Report)
	out := make([]build.Node, len(n.machines))
	for i, m := range n.machines {
		out[i] = &port{nodes: n, machine: m, spec: spec, registry: reg, progress: w, stdin: inputs}
	}
	return out
}

// port is a machine with one build to do; it satisfies build.Node.
type port struct {
	nodes    *Nodes
	machine  *machine
	spec     *Spec
	registry Registry
	progress progress.Writer
	stdin    *stdin
}

// Name is the name in its buildx instance, or the endpoint.
func (p *port) Name() string { return p.machine.name }

// Endpoint is the endpoint without a password.
func (p *port) Endpoint() string { return p.machine.endpoint }

// Declared lists what --node, or "buildx create --platform", gave the node.
func (p *port) Declared() []oci.Platform { return p.machine.Node.Node.Platforms }

// Platforms asks the node, once, and boots it if its driver can.
func (p *port) Platforms(ctx context.Context) ([]oci.Platform, error) {
	m := p.machine
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listed != nil {
		return m.listed, nil
	}
	if m.Err != nil {
		return nil, p.fault(nil, m.Err)
	}
	start := time.Now()
	listed, err := p.reach(ctx)
	if err == nil {
		m.listed = listed
		return listed, nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	return nil, &build.UnreachableError{Node: m.name, Endpoint: m.endpoint, Waited: time.Since(start), Err: err}
}

// reach connects and lists the workers' platforms. Only answers are timed, not
// the boot of a container or pod, which may have an image to pull.
func (p *port) reach(ctx context.Context) ([]oci.Platform, error) {
	handle := p.machine.Driver
	if handle.Factory().Name() != "remote" {
		if err := p.boot(ctx, handle); err != nil {
			return nil, err
		}
	}
	// Drivers may keep this context for dialling again later.
	c, err := handle.Client(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	p.nodes.onClose(c.Close)
	timed, cancel := context.WithTimeout(ctx, p.nodes.options.Timeout)
	defer cancel()
	workers, err := listWorkers(timed, c)
	if err != nil {
		return nil, err
	}
	return workerPlatforms(workers)
}

func (p *port) boot(ctx context.Context, handle *driver.DriverHandle) error {
	timed, cancel := context.WithTimeout(ctx, p.nodes.options.Timeout)
	defer cancel()
	info, err := handle.Info(timed)
	if err != nil || info.Status == driver.Running {
		return err
	}
	_, err = driver.Boot(ctx, context.WithoutCancel(ctx), handle, p.progress)
	return err
}

// listWorkers tries until the context ends and returns the last answer, which
// says more than that the time is over.
func listWorkers(ctx context.Context, c *client.Client) ([]*client.WorkerInfo, error) {
	var last error
	for {
		workers, err := c.ListWorkers(ctx)
		if err == nil {
			return workers, nil
		}
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return nil, last
		case <-time.After(retryPause):
		}
	}
}

func workerPlatforms(workers []*client.WorkerInfo) ([]oci.Platform, error) {
	var out []oci.Platform
	seen := map[string]bool{}
	for _, w := range workers {
		for _, p := range w.Platforms {
			if key := oci.PlatformKey(p); !seen[key] {
				seen[key] = true
				out = append(out, p)
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the node has no worker")
	}
	return out, nil
}
