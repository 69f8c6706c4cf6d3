package layout

import (
	"context"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// annotationSubject is where containerd, and with it Docker, says in index.json
// what an entry refers to: "docker save" lists what the engine holds beside an
// image in this way.
const annotationSubject = "io.containerd.manifest.subject"

// ownImages returns the entries that are images by themselves, each digest once:
// all but those that belong to another image. If nothing is left, an entry is
// what the layout is about, and all of them are returned.
func (l *Layout) ownImages(ctx context.Context, entries []oci.Entry) []oci.Entry {
	all := named(entries, "")
	out := slices.DeleteFunc(slices.Clone(all), isCompanion)
	if len(out) > 1 {
		out = l.withoutParts(ctx, out)
	}
	if len(out) == 0 {
		return all
	}
	return out
}

// isCompanion reports what an entry itself says: that it refers to an image, or
// has one of the tags that list what refers to one.
func isCompanion(e oci.Entry) bool {
	return e.Annotations[annotationSubject] != "" || slices.ContainsFunc(Tags(e), isCompanionTag)
}

func isCompanionTag(tag string) bool {
	_, _, ok := oci.Companion(tag)
	return ok
}

// withoutParts drops entries without a name that have a subject, and those that
// an index lists which is an entry too: some programs list whatever they store.
// What cannot be read stays, so that reading it says why. An attestation that
// the entry binds to its image is a part of index.json where that is the image.
func (l *Layout) withoutParts(ctx context.Context, entries []oci.Entry) []oci.Entry {
	part := map[digest.Digest]bool{}
	for _, e := range entries {
		if _, attests := oci.IsAttestation(e.Descriptor); attests {
			continue
		}
		b, err := l.FetchManifest(ctx, e.Descriptor)
		if err != nil {
			continue
		}
		if subjectOf(b) != nil {
			part[e.Digest] = true
		}
		for _, d := range childrenOf(b) {
			part[d.Digest] = true
		}
	}
	return slices.DeleteFunc(entries, func(e oci.Entry) bool { return len(Tags(e)) == 0 && part[e.Digest] })
}

// childrenOf lists the manifests in an index, none of anything else.
func childrenOf(b oci.Blob) []oci.Entry {
	if !oci.IsIndex(b.MediaType) {
		return nil
	}
	idx, err := oci.ParseIndex(b)
	if err != nil {
		return nil
	}
	return idx.Manifests
}
