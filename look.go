package manifold

import (
	"context"

	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
)

// Inspection is what a location holds.
type Inspection struct {
	// Name is the location as asked for.
	Name string
	// Root is what it names, byte for byte.
	Root oci.Blob
	Tree audit.Tree
}

// Resolve reads what a location names and nothing below it.
func (m *Manifold) Resolve(ctx context.Context, l ref.Location) (oci.Blob, error) {
	b, err := m.resolve(ctx, l)
	return b, at(l, err)
}

// Inspect reads a location and everything below it that is a manifest or a
// config. It reads no layer.
func (m *Manifold) Inspect(ctx context.Context, l ref.Location) (Inspection, error) {
	root, err := m.Resolve(ctx, l)
	if err != nil {
		return Inspection{}, err
	}
	p, _, err := m.open(ctx, l)
	if err != nil {
		return Inspection{}, err
	}
	tree, err := audit.InspectPartial(ctx, p, root, absent)
	return Inspection{Name: l.String(), Root: root, Tree: tree}, err
}

// VerifyOptions say what an image must be besides whole.
type VerifyOptions struct {
	// Platforms that must be there. With exactly one, an image without an index
	// will do; without any, or with several, it is a fault.
	Platforms []oci.Platform
	// Exact refuses platforms besides those.
	Exact bool
}

// Verify reads a location and checks the index and every child by digest, sizes,
// media types, the platform of each config against its label, and that every
// blob is there. Faults are findings, all of them; an error means that the
// registry could not be asked.
func (m *Manifold) Verify(ctx context.Context, l ref.Location, o VerifyOptions) (audit.Result, error) {
	root, err := m.Resolve(ctx, l)
	if err != nil {
		return audit.Result{}, err
	}
	p, _, err := m.open(ctx, l)
	if err != nil {
		return audit.Result{}, err
	}
	return audit.Verify(ctx, p, root, audit.Options{
		Platforms: o.Platforms, Exact: o.Exact, Absent: absent, Report: m.o.Report,
	})
}
