package apply

import (
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/oci"
)

// telling are the annotations by which the maker of an index can be known.
var telling = []string{
	"org.opencontainers.image.created", "org.opencontainers.image.revision",
	"org.opencontainers.image.version", "org.opencontainers.image.source",
}

// describe says what is known of another writer by what it wrote: the platforms
// and the annotations that tell where an image comes from.
func describe(b oci.Blob) string {
	if !oci.IsIndex(b.MediaType) {
		return "an image for one platform"
	}
	idx, err := oci.ParseIndex(b)
	if err != nil {
		return ""
	}
	var platforms []string
	for _, e := range idx.Manifests {
		if _, attests := oci.IsAttestation(e.Descriptor); !attests && !oci.IsUnknownPlatform(e.Platform) {
			platforms = append(platforms, oci.FormatPlatform(*e.Platform))
		}
	}
	s := "an index for " + strings.Join(platforms, ", ")
	if len(platforms) == 0 {
		s = "an index"
	}
	for _, key := range telling {
		if v := idx.Annotations[key]; v != "" {
			s += fmt.Sprintf(", %s %s", key[strings.LastIndexByte(key, '.')+1:], v)
		}
	}
	return s
}
