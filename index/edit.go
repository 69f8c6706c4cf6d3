package index

import (
	"maps"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// WithPlatform returns e with the platform p, in practice that of the image's
// config, where the descriptor says nothing. A platform that is there stays as
// it is written; only a missing os.version is added when both name one system,
// since Windows chooses by it (docker/buildx#563). Unknown members are kept.
func WithPlatform(e oci.Entry, p oci.Platform) oci.Entry {
	if oci.IsUnknownPlatform(&p) {
		return e
	}
	p.OSFeatures = slices.Clone(p.OSFeatures)
	if oci.IsUnknownPlatform(e.Platform) {
		e.Platform = &p
		return e
	}
	if have := *e.Platform; have.OSVersion == "" && have.OS == p.OS && have.Architecture == p.Architecture {
		have.OSVersion = p.OSVersion
		e.Platform = &have
	}
	return e
}

// Attest returns e as the entry of an attestation of subject, in the form that
// BuildKit gives it. Other annotations and unknown members are kept.
func Attest(e oci.Entry, subject digest.Digest) oci.Entry {
	a := maps.Clone(e.Annotations)
	if a == nil {
		a = make(map[string]string, 2)
	}
	a[oci.AnnotationReferenceType] = oci.ReferenceTypeAttestation
	a[oci.AnnotationReferenceDigest] = string(subject)
	e.Annotations = a
	if e.Platform == nil {
		e.Platform = &oci.Platform{OS: "unknown", Architecture: "unknown"}
	}
	return e
}
