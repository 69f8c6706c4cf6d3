package manifold

import (
	"context"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
)

// ConfigPlatform reads the platform of an image from its config, one GET. An
// image whose config says nothing has the zero platform. Errors:
// [*oci.SyntaxError], [*registry.Error].
func (m *Manifold) ConfigPlatform(ctx context.Context, repo ref.Reference, image oci.Manifest) (oci.Platform, error) {
	return platformOf(ctx, m.reg.Repository(repo), image)
}

// PublishContent publishes an index whose every byte is given: what
// [Manifold.Create] does after it has made one. verb names the caller in the
// plan and in the receipt, which is there on failure too. Errors: those of
// [publish.Make] and [apply.Run].
func (m *Manifold) PublishContent(ctx context.Context, verb string, c publish.Content, targets []ref.Reference, o PublishOptions) (Created, error) {
	p, r, err := m.run(ctx, publication{PublishOptions: o, verb: verb, content: c, targets: targets})
	return Created{Index: c.Root, Plan: p, Receipt: r}, err
}
