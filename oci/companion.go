package oci

import (
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Companion reads a tag by which content is found that belongs to a manifest:
// sha256-HEX, which lists its referrers where there is no API (distribution-spec,
// "Referrers Tag Schema"), and with .sig, .att or .sbom after it those of cosign.
// kind is what follows the dot, empty for the first.
func Companion(tag string) (subject digest.Digest, kind string, ok bool) {
	algorithm, rest, _ := strings.Cut(tag, "-")
	hex, kind, more := strings.Cut(rest, ".")
	if more && !slices.Contains([]string{"sig", "att", "sbom"}, kind) {
		return "", "", false
	}
	subject = digest.Digest(algorithm + ":" + hex)
	if subject.Validate() != nil {
		return "", "", false
	}
	return subject, kind, true
}
