package buildkit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/driver"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
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

// BootError reports a node whose container or pod could not be started.
type BootError struct {
	Endpoint string
	Err      error
}

func (e *BootError) Error() string {
	return fmt.Sprintf("boot at %s: %v", e.Endpoint, e.Err)
}

func (e *BootError) Unwrap() error { return e.Err }

// BuildOptions say what nodes do with what they build. The zero value pushes
// nothing: everything comes through the client and is kept until Close.
type BuildOptions struct {
	// Registry is where images go when the spec has names to publish.
	Registry Registry
	// Relay keeps nodes from pushing: what they make passes through the client,
	// and is neither kept nor asked for where the registry has it. Nodes that
	// cannot push by digest, Docker Engines, are relayed in any case.
	Relay bool
	// NoBinaryCheck lets an image pass whose binaries are for another processor
	// than the one it is labelled for.
	NoBinaryCheck bool
	// Progress shows the builds; nil shows nothing.
	Progress progress.Writer
	// Report gets what is relayed.
	Report report.Sink
}

// Build returns the nodes as ports that build what spec asks for. Nodes push
// by digest, and what they pushed is read back.
func (n *Nodes) Build(spec *Spec, o BuildOptions) []build.Node {
	if o.Progress == nil {
		o.Progress = silent{}
	}
	if n.options.NoDefaultAttestations {
		spec = spec.withoutDefaultAttestations()
	}
	inputs := &stdin{dir: n.options.TempDir}
	n.onClose(inputs.Close)
	warnSplitCache(spec, n.options.Report)
	warnUnattested(spec, n.options.Report)
	relay := o.relay(spec)
	out := make([]build.Node, len(n.machines))
	for i, m := range n.machines {
		out[i] = &port{nodes: n, machine: m, spec: spec, o: o, relays: relay, progress: o.Progress, stdin: inputs}
	}
	return out
}

// relay is what images pass through to the first repository, nil when there is
// none. Further repositories get theirs from that one.
func (o BuildOptions) relay(spec *Spec) *relay {
	repos, err := repositories(spec.Names)
	if o.Registry == nil || len(repos) == 0 || err != nil {
		return nil
	}
	return newRelay(repos[0], o.Registry, o.Report)
}

// port is a machine with one build to do; it satisfies build.Node.
type port struct {
	nodes    *Nodes
	machine  *machine
	spec     *Spec
	o        BuildOptions
	relays   *relay
	files    *tars // not nil to write files and no image
	progress progress.Writer
	stdin    *stdin
	contents func(context.Context) source // the node's own when nil
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
	var boot *BootError
	if errors.As(err, &boot) {
		return nil, p.fault(nil, err)
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
	if _, err = driver.Boot(ctx, context.WithoutCancel(ctx), handle, p.progress); err != nil {
		return &BootError{Endpoint: p.Endpoint(), Err: err}
	}
	return nil
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
