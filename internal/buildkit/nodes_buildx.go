package buildkit

import (
	"context"

	"github.com/docker/buildx/builder"
)

// BuilderNodes returns the nodes in buildx's form, for builds that are buildx's
// alone ([Command.Plain]).
func (n *Nodes) BuilderNodes(context.Context) ([]builder.Node, error) {
	out := make([]builder.Node, len(n.machines))
	for i, m := range n.machines {
		out[i] = m.Node
	}
	return out, nil
}
