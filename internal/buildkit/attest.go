package buildkit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// AttestationError reports attestations that do not belong to the image that
// they came with.
type AttestationError struct {
	// Image is the digest of the image manifest.
	Image digest.Digest
	// Attestation is the digest of the attestation manifest.
	Attestation digest.Digest
	Reason      string
}

func (e *AttestationError) Error() string {
	return fmt.Sprintf("attestation %s of image %s: %s", e.Attestation, e.Image, e.Reason)
}

// attestArg begins the build arguments that BuildKit reads as attestations to
// make. A build that must not make any does not get them.
const attestArg = "BUILDKIT_ATTEST_"

// askedAttests are the attestations that the user spoke of, by flag or else by
// build argument. A nil entry turns one off.
func askedAttests(spec *Spec) map[string]*string {
	out := map[string]*string{}
	for k, v := range spec.Options.BuildArgs {
		if kind, ok := strings.CutPrefix(k, attestArg); ok {
			out[strings.ToLower(kind)] = &v
		}
	}
	maps.Copy(out, spec.Attests)
	return out
}

// wantedAttests are the attestations to ask for: the user's, and provenance in its
// smallest form unless the user said otherwise. A nil entry turns one off.
func wantedAttests(spec *Spec) map[string]*string {
	out := askedAttests(spec)
	if _, ok := out[provenance]; !ok {
		out[provenance] = defaultProvenance(spec)
	}
	return out
}

// provenance is the type of attestation that describes a build.
const provenance = "provenance"

// defaultProvenance is nil with Docker media types, which cannot be attested.
func defaultProvenance(spec *Spec) *string {
	if dockerTypes(spec) {
		return nil
	}
	v := "type=provenance,mode=min"
	return &v
}

// warnUnattested says that images lack the provenance that they have by default.
func warnUnattested(spec *Spec, sink report.Sink) {
	if _, asked := askedAttests(spec)[provenance]; asked || !dockerTypes(spec) {
		return
	}
	sink.Warn("oci-mediatypes=false", "the images have no provenance, which Docker's media types cannot hold; with --provenance=false this is not said")
}

// attested lists the attestations that are not turned off.
func attested(spec *Spec) []string {
	var out []string
	for k, v := range wantedAttests(spec) {
		if v != nil {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// received is what a node exported to a Store for one platform.
type received struct {
	// image has no bytes if the store did not need them.
	image        oci.Blob
	attestations []oci.Blob
	entries      []oci.Entry
}

// readReceived reads the export under root: an image manifest alone, or a
// per-node index with one image and its attestations. Nothing of the index
// itself is kept.
func readReceived(s *Store, root oci.Descriptor) (received, error) {
	if oci.IsImageManifest(root.MediaType) {
		// The OCI exporter dates the descriptor, which would make two equal
		// builds differ.
		root.Annotations = without(root.Annotations, annotationCreated)
		return readImage(s, root)
	}
	if !oci.IsIndex(root.MediaType) {
		return received{}, &ExportError{Digest: root.Digest, Reason: "unexpected media type " + root.MediaType}
	}
	b, err := s.manifest(root)
	if err != nil {
		return received{}, err
	}
	index, err := oci.ParseIndex(b)
	if err != nil {
		return received{}, fmt.Errorf("index %s of the node: %w", root.Digest, err)
	}
	image, entries, err := split(root.Digest, index)
	if err != nil {
		return received{}, err
	}
	r, err := readImage(s, image)
	if err != nil {
		return received{}, err
	}
	return r, r.addAttestations(s, entries)
}

const annotationCreated = "org.opencontainers.image.created"

// split parts the index of a node into its one image and the attestations.
func split(root digest.Digest, index oci.Index) (oci.Descriptor, []oci.Entry, error) {
	var images []oci.Descriptor
	var attestations []oci.Entry
	for _, e := range index.Manifests {
		_, isAttestation := oci.IsAttestation(e.Descriptor)
		switch {
		case isAttestation:
			attestations = append(attestations, e)
		case oci.IsImageManifest(e.MediaType):
			images = append(images, e.Descriptor)
		default:
			return oci.Descriptor{}, nil, &ExportError{Digest: root, Reason: "entry " + e.Digest.String() + " is a " + e.MediaType}
		}
	}
	if len(images) != 1 {
		return oci.Descriptor{}, nil, &ExportError{Digest: root, Reason: fmt.Sprintf("the index has %d images, one was asked for", len(images))}
	}
	return images[0], attestations, nil
}

func readImage(s *Store, d oci.Descriptor) (received, error) {
	if s.isPresent(d.Digest) {
		return received{image: oci.Blob{Descriptor: d}}, nil
	}
	b, err := s.manifest(d)
	return received{image: b}, err
}

// addAttestations reads the attestation manifests and holds each to the image.
func (r *received) addAttestations(s *Store, entries []oci.Entry) error {
	for _, e := range entries {
		if subject, _ := oci.IsAttestation(e.Descriptor); subject != r.image.Digest {
			return &AttestationError{Image: r.image.Digest, Attestation: e.Digest, Reason: "it speaks of " + subject.String()}
		}
		b, err := s.manifest(e.Descriptor)
		if err != nil {
			return err
		}
		m, err := oci.ParseManifest(b)
		if err != nil {
			return fmt.Errorf("attestation %s: %w", e.Digest, err)
		}
		if m.Subject != nil && m.Subject.Digest != r.image.Digest {
			return &AttestationError{Image: r.image.Digest, Attestation: e.Digest, Reason: "its subject is " + m.Subject.Digest.String()}
		}
		if err := s.complete(m); err != nil {
			return err
		}
		r.attestations = append(r.attestations, b)
		r.entries = append(r.entries, e)
	}
	return nil
}

// complete makes sure that everything a manifest points at was sent.
func (s *Store) complete(m oci.Manifest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range append([]oci.Descriptor{m.Config}, m.Layers...) {
		if _, ok := s.has(d.Digest); !ok {
			return &ExportError{Digest: d.Digest, Reason: "the node did not send it"}
		}
	}
	return nil
}

// apply joins what the attesting pass brought to the image of the first one.
// If that pass made another image, as builds that do not repeat themselves
// do, its image is the one that the attestations are for: it takes the first
// one's place, which is left over in the registry. It returns whether that
// happened.
func (r received) apply(im *build.Image, s *Store) (replaced bool, err error) {
	r.join(im, s)
	if r.image.Digest == im.Manifest.Digest {
		return false, nil
	}
	m, err := oci.ParseManifest(r.image)
	if err != nil {
		return false, fmt.Errorf("image %s: %w", r.image.Digest, err)
	}
	im.Leftovers = append(im.Leftovers, im.Manifest.Digest)
	im.Manifest, im.Config, im.Pushed, im.Content = r.image, m.Config.Digest, false, s
	return true, s.complete(m)
}

// presentBlobs lists what the registry holds once an image was pushed.
func presentBlobs(manifest oci.Blob) ([]oci.Descriptor, error) {
	refs, err := oci.References(manifest)
	return append(refs, manifest.Descriptor), err
}

// withoutDefaultAttestations leaves only what was asked for.
func (s *Spec) withoutDefaultAttestations() *Spec {
	if _, asked := askedAttests(s)[provenance]; asked {
		return s
	}
	c := *s
	c.Attests = maps.Clone(s.Attests)
	if c.Attests == nil {
		c.Attests = map[string]*string{}
	}
	c.Attests[provenance] = nil
	return &c
}
