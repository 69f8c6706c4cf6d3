package manifold

import (
	"context"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// SeveralError reports a platform for which an index has more than one image:
// they differ in os.version or os.features.
type SeveralError struct {
	Platform string
	// Have are their platforms in full.
	Have []string
}

func (e *SeveralError) Error() string {
	return fmt.Sprintf("platform %s: there are several: %s", e.Platform, strings.Join(e.Have, ", "))
}

// AtPlatform is the location, by digest, of the one image for a platform. What
// names a single image must be for that platform, as its config tells; such a
// location stays as given where it is in no registry. Errors:
// [*PlatformsError], which lists what there is; [*SeveralError]; those of
// [Manifold.Resolve].
func (m *Manifold) AtPlatform(ctx context.Context, l ref.Location, p oci.Platform) (ref.Location, error) {
	root, err := m.Resolve(ctx, l)
	if err != nil {
		return l, err
	}
	from, name, err := m.open(ctx, l)
	if err != nil {
		return l, at(l, err)
	}
	c := &copier{m: m, o: CopyOptions{Source: l, Platforms: []oci.Platform{p}}}
	c.from = gatherer{place: from, name: name, known: map[digest.Digest]publish.Manifest{}}
	if !oci.IsIndex(root.MediaType) {
		if _, err = c.checkedImage(ctx, root); err == nil && l.Transport == ref.Registry {
			l.Reference = l.Reference.WithDigest(root.Digest)
		}
		return l, at(l, err)
	}
	d, err := c.only(ctx, root, p)
	if err != nil {
		return l, at(l, err)
	}
	if l.Transport == ref.Registry {
		l.Reference = l.Reference.WithDigest(d)
	} else {
		l.Tag = d.String()
	}
	return l, nil
}

// only is the one image for a platform.
func (c *copier) only(ctx context.Context, root oci.Blob, p oci.Platform) (digest.Digest, error) {
	images, err := c.labelled(ctx, root)
	if err != nil {
		return "", err
	}
	kept, err := filter(images, c.o.Platforms)
	if err != nil {
		return "", err
	}
	if len(kept) > 1 {
		several := &SeveralError{Platform: oci.FormatPlatform(p)}
		for _, img := range kept {
			several.Have = append(several.Have, oci.FormatPlatform(*img.Entry.Platform))
		}
		return "", several
	}
	return kept[0].Entry.Digest, nil
}
