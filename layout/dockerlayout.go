package layout

import (
	"context"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// savedLayout is an archive of docker save that is a layout, too. What it holds
// is looked for in index.json, which lists every image; manifest.json has one
// config of each, and the order.
type savedLayout struct {
	layout *Layout
	items  []dockerItem
	images []oci.Entry // one per image and name
}

// resolveLayout finds an image by a name, an ID or its place. The ID is the
// digest of the index or manifest, as in engines with containerd, or that of a
// config, which names the one manifest that has it.
func (d *DockerArchive) resolveLayout(ctx context.Context, name string) (oci.Blob, error) {
	_, idx, err := d.layout.index(ctx)
	if err != nil {
		return oci.Blob{}, err
	}
	own := map[digest.Digest]bool{}
	for _, e := range d.layout.ownImages(ctx, idx.Manifests) {
		own[e.Digest] = true
	}
	s := savedLayout{d.layout, d.images, slices.DeleteFunc(idx.Manifests, func(e oci.Entry) bool { return !own[e.Digest] })}
	found := oci.Unique(s.find(ctx, name))
	if len(found) == 1 {
		return d.layout.FetchManifest(ctx, found[0])
	}
	if sum := fullDigest(name); sum != "" && len(found) == 0 {
		return d.layout.FetchManifest(ctx, oci.Descriptor{Digest: sum})
	}
	return oci.Blob{}, &TagError{Path: d.layout.path, Tag: name, Ambiguous: len(found) > 1, Have: s.names()}
}

func (s savedLayout) find(ctx context.Context, name string) []oci.Descriptor {
	if name == "" {
		return descriptors(s.images)
	}
	if n, ok := strings.CutPrefix(name, "@"); ok {
		return s.nth(ctx, n)
	}
	for _, tag := range []string{fullName(name), name} {
		if found := named(s.images, tag); tag != "" && len(found) > 0 {
			return descriptors(found)
		}
	}
	if id := imageID(name); id != "" {
		return s.identified(ctx, id)
	}
	return nil
}

func descriptors(entries []oci.Entry) []oci.Descriptor {
	out := make([]oci.Descriptor, len(entries))
	for i, e := range entries {
		out[i] = e.Descriptor
	}
	return out
}

// nth is an image by its place in manifest.json; in index.json where that is all
// there is.
func (s savedLayout) nth(ctx context.Context, n string) []oci.Descriptor {
	own := descriptors(named(s.images, ""))
	count := len(own)
	if len(s.items) > 0 {
		count = len(s.items)
	}
	i, err := strconv.Atoi(n)
	switch {
	case err != nil || i < 0 || i >= count:
		return nil
	case len(s.items) > 0:
		return s.of(ctx, s.items[i])
	}
	return own[i : i+1]
}

// of returns the image that an item of manifest.json stands for: by its names,
// and where it has none by its config.
func (s savedLayout) of(ctx context.Context, item dockerItem) []oci.Descriptor {
	for _, name := range item.RepoTags {
		if found := named(s.images, fullName(name)); len(found) > 0 {
			return descriptors(found)
		}
	}
	var out []oci.Descriptor
	for _, e := range named(s.images, "") {
		holds := func(m savedManifest) bool {
			return m.config != "" && strings.HasPrefix(path.Base(item.Config), m.config.Encoded())
		}
		if slices.ContainsFunc(s.below(ctx, e.Descriptor, 0, map[digest.Digest]bool{}), holds) {
			out = append(out, e.Descriptor)
		}
	}
	return out
}

// identified returns what has an ID that begins with id.
func (s savedLayout) identified(ctx context.Context, id string) []oci.Descriptor {
	var out []oci.Descriptor
	begins := func(d digest.Digest) bool { return d != "" && strings.HasPrefix(d.Encoded(), id) }
	seen := map[digest.Digest]bool{}
	for _, e := range named(s.images, "") {
		for _, m := range s.below(ctx, e.Descriptor, 0, seen) {
			if begins(m.Digest) || begins(m.config) {
				out = append(out, m.Descriptor)
			}
		}
	}
	return out
}

// savedManifest is a manifest or index with the digest of its config, if any.
type savedManifest struct {
	oci.Descriptor
	config digest.Digest
}

// below lists a manifest and those in it that have not been seen, so that each
// is read once however often indexes list it. What is not there, or cannot be
// read, has no config and nothing below it.
func (s savedLayout) below(ctx context.Context, d oci.Descriptor, depth int, seen map[digest.Digest]bool) []savedManifest {
	if seen[d.Digest] || !oci.IsManifest(d.MediaType) {
		return nil
	}
	seen[d.Digest] = true
	out := []savedManifest{{Descriptor: d}}
	b, err := s.layout.FetchManifest(ctx, d)
	if err != nil || depth > oci.MaxDepth {
		return out
	}
	if m, err := oci.ParseManifest(b); err == nil {
		out[0].config = m.Config.Digest
	}
	for _, e := range childrenOf(b) {
		out = append(out, s.below(ctx, e.Descriptor, depth+1, seen)...)
	}
	return out
}

// names are the full names of the images, and the IDs of those that have none.
func (s savedLayout) names() []string {
	var out []string
	for _, e := range s.images {
		name := string(e.Digest)
		if tags := Tags(e); len(tags) > 0 {
			name = tags[len(tags)-1]
		}
		out = append(out, name)
	}
	return out
}
