package layout

import (
	"context"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// annotationImageName is where containerd, BuildKit and Docker keep the full
// name of an image beside its tag.
const annotationImageName = "io.containerd.image.name"

// Images lists the entries of index.json in their order; tags are in their
// annotations, see [Tags].
func (l *Layout) Images(ctx context.Context) ([]oci.Entry, error) {
	_, idx, err := l.index(ctx)
	return idx.Manifests, err
}

// Tags returns the names by which [Layout.Resolve] finds an entry of index.json,
// none when it has no name.
func Tags(e oci.Entry) []string {
	var out []string
	for _, key := range []string{ocispec.AnnotationRefName, annotationImageName} {
		if v := e.Annotations[key]; v != "" && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// Resolve reads the manifest or index that a tag names: the entry of index.json
// with that org.opencontainers.image.ref.name or io.containerd.image.name. A
// digest in place of a tag is read as that. An empty tag is the only image; what
// refers to an image is none, nor are the tags that list referrers.
//
// When index.json lists several manifests and none has a name, then it is the
// multi-platform image, and is returned itself; [Layout.FetchManifest] does not
// find it, since it is no blob. Errors: [*TagError], and those of
// [Layout.FetchManifest].
func (l *Layout) Resolve(ctx context.Context, tag string) (oci.Blob, error) {
	if d := digest.Digest(tag); d.Validate() == nil {
		return l.FetchManifest(ctx, oci.Descriptor{Digest: d})
	}
	root, idx, err := l.index(ctx)
	if err != nil {
		return oci.Blob{}, err
	}
	found := named(idx.Manifests, tag)
	if tag == "" {
		found = l.ownImages(ctx, idx.Manifests)
	}
	switch {
	case len(found) == 1:
		return l.FetchManifest(ctx, found[0].Descriptor)
	case len(found) > 1 && tag == "" && isImage(idx, found):
		return root, nil
	}
	return oci.Blob{}, &TagError{Path: l.path, Tag: tag, Ambiguous: len(found) > 1, Have: tags(idx)}
}

// isImage reports whether index.json is an image of several platforms: nothing
// in it has a name, or is anything but an image.
func isImage(idx oci.Index, own []oci.Entry) bool {
	return len(tags(idx)) == 0 && len(own) == len(named(idx.Manifests, ""))
}

// named returns the entries with a tag, all for the empty one, each digest once.
func named(entries []oci.Entry, tag string) []oci.Entry {
	seen := map[digest.Digest]bool{}
	var out []oci.Entry
	for _, e := range entries {
		if seen[e.Digest] || tag != "" && !slices.Contains(Tags(e), tag) {
			continue
		}
		seen[e.Digest] = true
		out = append(out, e)
	}
	return out
}

// tags are the names of the images, without those of what belongs to one.
func tags(idx oci.Index) []string {
	var out []string
	for _, e := range idx.Manifests {
		for _, t := range Tags(e) {
			if !slices.Contains(out, t) && !isCompanionTag(t) {
				out = append(out, t)
			}
		}
	}
	return out
}
