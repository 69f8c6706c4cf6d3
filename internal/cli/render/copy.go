package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/manifold-oci/manifold"
)

// Copy is the JSON of what a copy did: its receipt, with the sources.
type Copy struct {
	manifold.Receipt
	Images []manifold.CopiedImage `json:"images"`
}

// NewCopy returns the document of a copy.
func NewCopy(c manifold.Copied) Copy { return Copy{Receipt: c.Receipt, Images: c.Images} }

// Copied writes what a copy did: a line per platform and per tag, what went
// along, and the digest on the last line. Of several images it writes a line per
// tag and source.
func Copied(w io.Writer, c manifold.Copied) error {
	var b strings.Builder
	for _, img := range c.Images {
		if n := len(img.Referrers); n > 0 {
			fmt.Fprintf(&b, "%-24s %d\n", "referrers", n)
		}
		for _, tag := range img.Cosign {
			fmt.Fprintf(&b, "%-24s %s\n", "cosign", tag)
		}
	}
	if len(c.Images) == 1 {
		if err := write(w, &b); err != nil {
			return err
		}
		return Receipt(w, c.Receipt)
	}
	tags(&b, c.Receipt)
	for _, img := range c.Images {
		fmt.Fprintf(&b, "%s  %s\n", img.Digest, img.Source)
	}
	return write(w, &b)
}

// CopiedTags writes a line "DIGEST  SOURCE" per image.
func CopiedTags(w io.Writer, c manifold.Copied) error {
	var b strings.Builder
	for _, img := range c.Images {
		fmt.Fprintf(&b, "%s  %s\n", img.Digest, img.Source)
	}
	return write(w, &b)
}
