package buildkit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/client/llb"
)

// NodeState is what can be said of a node.
type NodeState struct {
	Name, Endpoint, Driver string
	// Version of BuildKit, empty if the node does not say.
	Version string
	// Declared are the platforms that the user gave it, Native and Emulated those
	// that it reports: its own processor's, and what it runs by emulation.
	Declared, Native, Emulated []oci.Platform
	// Busy is how many builds are under way.
	Busy int
	// Err says why the node could not be asked.
	Err error
	// Registries that were asked for, and whether the node reaches them.
	Registries []Reach
}

// Reach is whether a node reaches a registry.
type Reach struct {
	// URL that the node fetched.
	URL string
	// Err is nil when something answered there, whatever it said.
	Err error
}

// States asks all nodes at once. urls are addresses of registries, as
// "https://ghcr.io/v2/", that every node tries to fetch.
func (n *Nodes) States(ctx context.Context, urls []string) []NodeState {
	out := make([]NodeState, len(n.machines))
	var wg sync.WaitGroup
	for i, node := range n.Build(&Spec{}, BuildOptions{}) {
		wg.Go(func() { out[i] = node.(*port).state(ctx, urls) })
	}
	wg.Wait()
	return out
}

func (p *port) state(ctx context.Context, urls []string) NodeState {
	s := NodeState{Name: p.Name(), Endpoint: p.Endpoint(), Declared: p.Declared()}
	if p.machine.Driver != nil {
		s.Driver = p.machine.Driver.Factory().Name()
	}
	listed, err := p.Platforms(ctx)
	if err != nil {
		s.Err = err
		return s
	}
	s.Native, s.Emulated = native(listed)
	c, err := p.machine.Driver.Client(context.WithoutCancel(ctx))
	if err != nil {
		s.Err = err
		return s
	}
	p.nodes.onClose(c.Close)
	timed, cancel := context.WithTimeout(ctx, p.nodes.options.Timeout)
	defer cancel()
	if info, err := c.Info(timed); err == nil {
		s.Version = info.BuildkitVersion.Version
	}
	s.Busy, _ = p.Busy(timed)
	for _, u := range urls {
		s.Registries = append(s.Registries, Reach{URL: u, Err: fetch(timed, c, u)})
	}
	return s
}

// native parts platforms by whether the processor of the first one, which is
// the node's own, runs them.
func native(listed []oci.Platform) (own, emulated []oci.Platform) {
	for _, p := range listed {
		if runs(listed[0].Architecture, p.Architecture) {
			own = append(own, p)
		} else {
			emulated = append(emulated, p)
		}
	}
	return own, emulated
}

func runs(own, other string) bool {
	return own == other || own == "amd64" && other == "386" || own == "arm64" && other == "arm"
}

// fetch has a node fetch a URL. An answer of any kind will do: a registry that
// wants a login answers 401.
func fetch(ctx context.Context, c *client.Client, url string) error {
	def, err := llb.HTTP(url, llb.Filename("answer")).Marshal(ctx)
	if err != nil {
		return err
	}
	_, err = c.Solve(ctx, def, client.SolveOpt{}, nil)
	if err == nil || strings.Contains(err.Error(), "invalid response status") {
		return nil
	}
	return fmt.Errorf("%s", lastLine(err.Error()))
}

// lastLine keeps the cause of an error that BuildKit has put into words.
func lastLine(s string) string {
	lines := slices.DeleteFunc(strings.Split(s, "\n"), func(l string) bool { return strings.TrimSpace(l) == "" })
	if len(lines) == 0 {
		return s
	}
	return strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "failed to solve: ")
}
