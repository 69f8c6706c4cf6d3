package index

import (
	"slices"

	"github.com/manifold-oci/manifold/oci"
)

// Referrers makes the index that a fallback tag names, where a registry has no
// referrers API (distribution-spec, "Referrers Tag Schema"): what base lists,
// then those of more that it does not. base is nil when there is none yet.
// Errors are those of [oci.ParseIndex] and [*SizeError].
func Referrers(base *oci.Blob, more []oci.Descriptor) (oci.Blob, error) {
	doc := document{MediaType: oci.MediaTypeIndex}
	if base != nil {
		was, err := oci.ParseIndex(*base)
		if err != nil {
			return oci.Blob{}, err
		}
		doc.entries, doc.Annotations = was.Manifests, was.Annotations
	}
	for _, d := range more {
		if !slices.ContainsFunc(doc.entries, func(e oci.Entry) bool { return e.Digest == d.Digest }) {
			d.Platform = nil
			doc.entries = append(doc.entries, oci.Entry{Descriptor: d})
		}
	}
	return doc.blob()
}
