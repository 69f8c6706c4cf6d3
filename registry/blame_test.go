package registry_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// TestLargeBlobWithOtherBytesIsTheSourcesFault: what a large upload is fed with
// is hashed once, by the registry that receives it; when that refuses it, the
// source is named.
func TestLargeBlobWithOtherBytesIsTheSourcesFault(t *testing.T) {
	image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Pad: 17 << 20})
	layer := image.Blobs[1]
	from := registrytest.Distribution(t)
	from.Push("src", "1", image)
	from.Fault(registrytest.Fault{Method: "GET", Path: "/blobs/", Times: 2, Rewrite: registrytest.CorruptByte(1 << 20)})
	registrytest.Each(t, func(t *testing.T, to *registrytest.Registry) {
		if to.Kind != "distribution-3" {
			from.Fault(registrytest.Fault{Method: "GET", Path: "/blobs/", Times: 2, Rewrite: registrytest.CorruptByte(1 << 20)})
		}
		c := registry.NewClient(registry.Options{})
		src := c.Repository(ref.Reference{Host: from.Host, Repository: "src"})
		dst := c.Repository(ref.Reference{Host: to.Host, Repository: "dst"})
		copyIt := func() error {
			_, err := dst.CopyBlob(t.Context(), layer.Descriptor, nil, func(ctx context.Context) (io.ReadCloser, error) {
				return src.OpenBlob(ctx, layer.Descriptor)
			})
			return err
		}
		err := copyIt()
		var wrong *oci.MismatchError
		if !errors.As(err, &wrong) || wrong.Want != layer.Digest.String() || !strings.Contains(err.Error(), from.Host) {
			t.Errorf("the error is %v", err)
		}
		if to.HasBlob("dst", layer.Digest) {
			t.Error("it is there")
		}
		if err := copyIt(); err != nil || !to.HasBlob("dst", layer.Digest) {
			t.Errorf("with the right bytes: %v", err)
		}
	})
}
