package manifold

import (
	"context"
	"fmt"
	"io"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
)

// Receiver takes images that are not published; an image layout is one.
type Receiver interface {
	// WriteBlob opens a blob if it is not there already, and says whether it was
	// written.
	WriteBlob(ctx context.Context, d oci.Descriptor, open func(context.Context) (io.ReadCloser, error)) (bool, error)
	PutManifest(ctx context.Context, b oci.Blob) error
	PutTag(ctx context.Context, tag string, b oci.Blob) error
}

// Export is a receiver and the tags that name the index there.
type Export struct {
	Receiver
	Tags []string
}

// Export is [Manifold.Build] to files: it writes the one index and everything
// below it to each receiver, children before parents and tags last. Nodes must
// have been made to hand over what they build. Targets are not looked at.
func (m *Manifold) Export(ctx context.Context, o BuildOptions, into ...Export) (Built, error) {
	images, err := build.Run(ctx, o.Nodes, o.Run(m.o.Report))
	if err != nil {
		return Built{Images: images}, err
	}
	built := Built{Images: images}
	entries, manifests, places := results(images, nil)
	content, err := assemble(entries, manifests, o.index())
	if err != nil {
		return built, err
	}
	built.Index = content.Root
	built.Receipt = Receipt{Verb: "build", Digest: content.Root.Digest, MediaType: content.Root.MediaType, Size: content.Root.Size, Platforms: platformReceipts(wanted(publication{content: content}))}
	for _, img := range images {
		built.Receipt.built(img.Manifest.Digest, img.Node, img.Duration)
	}
	for _, e := range into {
		if err := e.write(ctx, content, places); err != nil {
			return built, err
		}
	}
	return built, nil
}

func (o BuildOptions) index() index.Options {
	return index.Options{
		MediaType: o.MediaType, Annotations: o.Annotations, DescriptorAnnotations: descriptorAnnotations(o.DescriptorAnnotations),
	}
}

func (e Export) write(ctx context.Context, c publish.Content, places map[string]apply.BlobOpener) error {
	for _, m := range c.Manifests {
		if err := e.writeManifest(ctx, m, places); err != nil {
			return fmt.Errorf("%s: %w", m.Digest, err)
		}
	}
	for _, tag := range e.Tags {
		if err := e.PutTag(ctx, tag, c.Root); err != nil {
			return err
		}
	}
	return nil
}

func (e Export) writeManifest(ctx context.Context, m publish.Manifest, places map[string]apply.BlobOpener) error {
	refs, err := oci.References(m.Blob)
	if err != nil {
		return err
	}
	for _, d := range oci.Unique(refs) {
		_, err := e.WriteBlob(ctx, d, func(ctx context.Context) (io.ReadCloser, error) { return places[m.BlobsAt[0]].OpenBlob(ctx, d) })
		if err != nil {
			return err
		}
	}
	return e.PutManifest(ctx, m.Blob)
}
