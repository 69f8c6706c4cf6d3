package layout

import (
	"context"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Referrers lists what refers to a manifest by its subject, as a layout tells
// it: the index tagged algorithm-hex (distribution-spec, "Referrers Tag Schema"),
// and entries of index.json without a tag that have the subject. Nothing there
// is nil.
func (l *Layout) Referrers(ctx context.Context, d digest.Digest) ([]oci.Descriptor, error) {
	_, idx, err := l.index(ctx)
	if err != nil {
		return nil, err
	}
	found, err := l.taggedReferrers(ctx, idx, d)
	if err != nil {
		return nil, err
	}
	for _, e := range idx.Manifests {
		if len(Tags(e)) > 0 || !oci.IsManifest(e.MediaType) {
			continue
		}
		b, err := l.FetchManifest(ctx, e.Descriptor)
		if err != nil {
			return nil, err
		}
		if s := subjectOf(b); s != nil && s.Digest == d {
			found = append(found, oci.Referrer(b))
		}
	}
	return oci.Unique(found), nil
}

func (l *Layout) taggedReferrers(ctx context.Context, idx oci.Index, d digest.Digest) ([]oci.Descriptor, error) {
	tag := string(d.Algorithm()) + "-" + d.Encoded()
	at := slices.IndexFunc(idx.Manifests, func(e oci.Entry) bool { return hasTag(e, tag) })
	if at < 0 {
		return nil, nil
	}
	b, err := l.FetchManifest(ctx, idx.Manifests[at].Descriptor)
	if err != nil {
		return nil, err
	}
	list, err := oci.ParseIndex(b)
	if err != nil {
		return nil, l.about(b.Descriptor, err)
	}
	var out []oci.Descriptor
	for _, e := range list.Manifests {
		out = append(out, e.Descriptor)
	}
	return out, nil
}

// subjectOf is the subject of a manifest or index, nil without one.
func subjectOf(b oci.Blob) *oci.Descriptor {
	if oci.IsIndex(b.MediaType) {
		if idx, err := oci.ParseIndex(b); err == nil {
			return idx.Subject
		}
		return nil
	}
	m, err := oci.ParseManifest(b)
	if err != nil {
		return nil
	}
	return m.Subject
}
