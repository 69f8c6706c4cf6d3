// Package manifold publishes multi-platform images as exactly one index: built
// on native BuildKit nodes or put together from images that exist, every child
// byte for byte, every tag moved once and only onto an index that was read back
// whole.
//
// The walk of a publish is one line, and [Manifold.Build] and
// [Manifold.Create] are that line:
//
//	ref -> build | registry | layout -> index -> publish -> apply -> audit
//
// Names are read (ref), content is found or built (build, registry, layout),
// one index is made of it (index), a plan is made of what the targets lack
// (publish), the plan is carried out as a transaction (apply). [Manifold.Verify]
// and [Manifold.Inspect] walk a published reference (audit).
//
//	m := manifold.New(manifold.Options{})
//	made, err := m.Create(ctx, manifold.CreateOptions{
//		Sources: []ref.Location{amd64, arm64},
//		Targets: []ref.Reference{app.WithTag("1.0"), app.WithTag("latest")},
//	})
//
// The package never prints, never reads the environment, and needs no BuildKit
// to be imported: nodes to build on come in through the port [build.Node].
//
// Read manifold.go first, then create.go and build.go; receipt.go is what every
// verb returns.
package manifold
