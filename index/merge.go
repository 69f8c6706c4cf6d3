package index

import (
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// identity tells entries apart. One digest may stand for several platforms (an
// image of data that runs anywhere), and one attestation manifest may speak of
// several images when their statements are equal byte for byte.
type identity struct {
	digest digest.Digest
	// of is the platform of an image, or the digest that an attestation speaks of.
	of string
}

// merger collects images and refuses what cannot be one index.
type merger struct {
	out    []Image
	at     map[identity]int
	holder map[string]int // platform key to place in out
}

// merge checks every image and collapses those that are given more than once.
// What it returns shares nothing that annotate changes.
func merge(images []Image) ([]Image, error) {
	m := merger{at: map[identity]int{}, holder: map[string]int{}}
	for _, img := range images {
		if err := m.add(img); err != nil {
			return nil, err
		}
	}
	if len(m.holder) == 0 {
		return nil, emptyError(m.out)
	}
	return m.out, nil
}

// emptyError names the artifact that was given alone, when there is one.
func emptyError(artifacts []Image) error {
	if len(artifacts) == 0 {
		return ErrEmpty
	}
	return &NoPlatformError{Image: artifacts[0].origin()}
}

func (img Image) origin() Origin { return Origin{Digest: img.Entry.Digest, Source: img.Source} }

// runs reports whether the entry is for a platform.
func (img Image) runs() bool { return !oci.IsUnknownPlatform(img.Entry.Platform) }

func (m *merger) add(img Image) error {
	if err := check(img); err != nil {
		return err
	}
	img.Attestations = slices.Clone(img.Attestations)
	id := identity{digest: img.Entry.Digest}
	if img.runs() {
		id.of = oci.PlatformKey(*img.Entry.Platform)
	}
	if i, ok := m.at[id]; ok {
		return m.again(i, img)
	}
	if i, ok := m.holder[id.of]; ok && id.of != "" {
		return &DuplicateError{Platform: oci.FormatPlatform(*img.Entry.Platform), First: m.out[i].origin(), Second: img.origin()}
	}
	place := len(m.out)
	m.at[id] = place
	if id.of != "" {
		m.holder[id.of] = place
	}
	m.out = append(m.out, Image{Entry: img.Entry, Source: img.Source, Artifact: img.Artifact})
	return m.attest(place, img)
}

// again merges an image that is there already: its annotations are added.
func (m *merger) again(i int, img Image) error {
	e := &m.out[i].Entry
	e.Annotations = overlay(e.Annotations, img.Entry.Annotations)
	return m.attest(i, img)
}

// attest adds the attestations of img to the image at place i. An attestation
// of a digest that has several platforms is listed once.
func (m *merger) attest(i int, img Image) error {
	for _, a := range img.Attestations {
		if err := checkAttestation(a, img); err != nil {
			return err
		}
		id := identity{digest: a.Digest, of: string(img.Entry.Digest)}
		if _, ok := m.at[id]; ok {
			continue
		}
		m.at[id] = i
		m.out[i].Attestations = append(m.out[i].Attestations, a)
	}
	return nil
}

func check(img Image) error {
	e := img.Entry
	if reason := descriptorFault(e.Descriptor); reason != "" {
		return &EntryError{Image: img.origin(), Reason: reason}
	}
	if oci.IsIndex(e.MediaType) {
		return &EntryError{Image: img.origin(), Reason: "is an index itself; put its images in instead"}
	}
	if _, ok := oci.IsAttestation(e.Descriptor); ok {
		return &EntryError{Image: img.origin(), Reason: "is an attestation, not an image"}
	}
	if !img.runs() && !img.Artifact {
		return &NoPlatformError{Image: img.origin()}
	}
	return nil
}

func checkAttestation(a oci.Entry, img Image) error {
	origin := Origin{Digest: a.Digest, Source: img.Source}
	if reason := descriptorFault(a.Descriptor); reason != "" {
		return &EntryError{Image: origin, Reason: reason}
	}
	if subject, ok := oci.IsAttestation(a.Descriptor); !ok || subject != img.Entry.Digest {
		return &EntryError{Image: origin, Reason: "is not annotated as an attestation of " + string(img.Entry.Digest)}
	}
	return nil
}

func descriptorFault(d oci.Descriptor) string {
	switch {
	case d.MediaType == "":
		return "has no media type"
	case d.Digest.Validate() != nil:
		return "has no valid digest"
	case d.Size <= 0:
		return "has no size"
	}
	return ""
}
