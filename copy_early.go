package manifold

import (
	"context"
	"sync"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
)

// look asks what the tags of the targets name while the source is being read:
// the same requests as the planner's, only earlier.
func (c *copier) look(ctx context.Context) {
	c.early = map[ref.Reference]func() (oci.Descriptor, error){}
	if c.o.Source.Transport != ref.Registry {
		return // read in no time; what is wrong with it shall cost no request
	}
	for _, t := range c.targets {
		if t.Tag == "" || t.AsLocation().Transport != ref.Registry || c.early[t] != nil {
			continue
		}
		ask := sync.OnceValues(func() (oci.Descriptor, error) { return c.m.reg.Repository(t).Resolve(ctx, t.Tag) })
		c.early[t] = ask
		go func() { _, _ = ask() }() // the planner sees what came of it
	}
}

// foreseen is a target some of whose tags were asked for already.
type foreseen struct {
	publish.Prober
	repo  ref.Reference
	early map[ref.Reference]func() (oci.Descriptor, error)
}

// Resolve returns what a tag or digest names.
func (f foreseen) Resolve(ctx context.Context, identifier string) (oci.Descriptor, error) {
	if ask, ok := f.early[f.repo.WithTag(identifier)]; ok {
		return ask()
	}
	return f.Prober.Resolve(ctx, identifier)
}
