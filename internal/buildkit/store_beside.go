package buildkit

import (
	"fmt"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
)

// beside is what a store knows of an export that runs in the same build as a
// push of the image: layers need not be sent, though nobody knows their digests
// yet, and one index is on its way.
//
// The ref of a write says what it is: containerd's fetch handler puts "layer-" and
// "index-" in front of digests. A layer that another node calls something else is
// received, which costs its bytes and nothing more.
type beside struct {
	mu   sync.Mutex
	root oci.Descriptor
}

// admit answers "exists" for layers.
func (b *beside) admit(o content.WriterOpts) error {
	if b == nil {
		return nil
	}
	if strings.HasPrefix(o.Ref, "layer-") {
		return fmt.Errorf("content %s: pushed by the node: %w", o.Desc.Digest, errdefs.ErrAlreadyExists)
	}
	if strings.HasPrefix(o.Ref, "index-") {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.root = oci.Descriptor{MediaType: oci.MediaTypeIndex, Digest: o.Desc.Digest, Size: o.Desc.Size}
	}
	return nil
}

// index is the index that was announced, none if the node made no attestation.
func (b *beside) index() (oci.Descriptor, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.root, b.root.Digest != ""
}
