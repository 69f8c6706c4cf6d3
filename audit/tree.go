package audit

import (
	"cmp"
	"math"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Tree is an index, or the only image, that a reference names. Sizes are in
// bytes. Its JSON is what "manifold inspect --json" prints.
type Tree struct {
	Digest       digest.Digest `json:"digest"`
	MediaType    string        `json:"mediaType"`
	Size         int64         `json:"size"`
	ArtifactType string        `json:"artifactType,omitempty"`
	// Subject is the manifest that an index says it belongs to.
	Subject digest.Digest `json:"subject,omitempty"`
	// Annotations of the index itself; DescriptorAnnotations of the entry that
	// names it, when it is inside another index.
	Annotations           map[string]string `json:"annotations,omitempty"`
	DescriptorAnnotations map[string]string `json:"descriptorAnnotations,omitempty"`
	// ContentSize is what everything below weighs, each digest once.
	ContentSize int64 `json:"contentSize"`
	// Images in the order listed; the root itself when it is no index.
	Images []Image `json:"images"`
	// Attestations that speak of no image in this index.
	Attestations []Attestation `json:"attestations,omitempty"`
	Artifacts    []Artifact    `json:"artifacts,omitempty"`
	// Indexes inside the index.
	Indexes []Tree `json:"indexes,omitempty"`
	Problem
}

// Problem says why nothing is known about content.
type Problem struct {
	// Missing: it is not there.
	Missing bool `json:"missing,omitempty"`
	// Problem in words, empty when all is well.
	Problem string `json:"problem,omitempty"`
}

// Image is one platform of an image.
type Image struct {
	// Platform as os/arch[/variant], "unknown/unknown" when nobody says it.
	Platform string `json:"platform"`
	// PlatformFrom is "descriptor" or "config", empty when unknown.
	PlatformFrom string        `json:"platformFrom,omitempty"`
	Digest       digest.Digest `json:"digest"`
	MediaType    string        `json:"mediaType"`
	// Size of the manifest.
	Size int64 `json:"size"`
	// ContentSize of config and layers.
	ContentSize int64 `json:"contentSize"`
	// Layers counts them.
	Layers                int               `json:"layers"`
	Config                digest.Digest     `json:"config,omitempty"`
	Annotations           map[string]string `json:"annotations,omitempty"`
	DescriptorAnnotations map[string]string `json:"descriptorAnnotations,omitempty"`
	Attestations          []Attestation     `json:"attestations,omitempty"`
	Problem
}

// Attestation is a manifest of statements about an image.
type Attestation struct {
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType"`
	Size      int64         `json:"size"`
	// ContentSize of its statements.
	ContentSize int64 `json:"contentSize"`
	// Subject is the image it speaks of.
	Subject digest.Digest `json:"subject,omitempty"`
	// PredicateTypes of its statements, in their order.
	PredicateTypes []string `json:"predicateTypes,omitempty"`
	Problem
}

// Artifact is an entry of an index that runs nowhere.
type Artifact struct {
	Digest       digest.Digest `json:"digest"`
	MediaType    string        `json:"mediaType"`
	ArtifactType string        `json:"artifactType,omitempty"`
	// Platform that its entry names, if any.
	Platform              string            `json:"platform,omitempty"`
	Size                  int64             `json:"size"`
	ContentSize           int64             `json:"contentSize"`
	DescriptorAnnotations map[string]string `json:"descriptorAnnotations,omitempty"`
	Problem
}

// annotationPredicateType is where BuildKit says what a layer states.
const annotationPredicateType = "in-toto.io/predicate-type"

func tree(n *node) Tree {
	t := Tree{
		Digest: n.desc.Digest, MediaType: n.desc.MediaType, Size: n.desc.Size, ArtifactType: n.index.ArtifactType,
		Annotations: n.index.Annotations, DescriptorAnnotations: n.desc.Annotations, Images: []Image{}, Problem: problem(n),
	}
	if n.index.Subject != nil {
		t.Subject = n.index.Subject.Digest
	}
	t.ContentSize = contentBelow(n)
	if n.role != index {
		t.ArtifactType = n.manifest.ArtifactType
		t.place(n)
		return t
	}
	for _, c := range n.children {
		if c.role != attestation {
			t.place(c)
		}
	}
	for _, c := range n.children {
		if c.role == attestation {
			t.attest(c)
		}
	}
	return t
}

func (t *Tree) place(n *node) {
	switch n.role {
	case index:
		t.Indexes = append(t.Indexes, tree(n))
	case image:
		t.Images = append(t.Images, imageOf(n))
	case attestation:
		t.Attestations = append(t.Attestations, attestationOf(n))
	default:
		t.Artifacts = append(t.Artifacts, artifactOf(n))
	}
}

// attest puts an attestation with its image, or apart when that is not here.
func (t *Tree) attest(n *node) {
	i := slices.IndexFunc(t.Images, func(img Image) bool { return img.Digest == n.subject })
	if i < 0 {
		t.place(n)
		return
	}
	t.Images[i].Attestations = append(t.Images[i].Attestations, attestationOf(n))
}

func imageOf(n *node) Image {
	p, from := n.platform()
	if p == nil {
		p = &oci.Platform{}
	}
	return Image{
		Platform: oci.FormatPlatform(*p), PlatformFrom: from,
		Digest: n.desc.Digest, MediaType: n.desc.MediaType, Size: n.desc.Size, ContentSize: contentSize(n.manifest),
		Layers: len(n.manifest.Layers), Config: n.manifest.Config.Digest,
		Annotations: n.manifest.Annotations, DescriptorAnnotations: n.desc.Annotations, Problem: problem(n),
	}
}

func attestationOf(n *node) Attestation {
	a := Attestation{
		Digest: n.desc.Digest, MediaType: n.desc.MediaType, Size: n.desc.Size,
		ContentSize: contentSize(n.manifest), Subject: n.subject, Problem: problem(n),
	}
	for _, l := range n.manifest.Layers {
		if p := l.Annotations[annotationPredicateType]; p != "" {
			a.PredicateTypes = append(a.PredicateTypes, p)
		}
	}
	return a
}

func artifactOf(n *node) Artifact {
	return Artifact{
		Digest: n.desc.Digest, MediaType: n.desc.MediaType, Size: n.desc.Size, ArtifactType: cmp.Or(n.desc.ArtifactType, n.manifest.Type()),
		ContentSize: contentSize(n.manifest), Platform: n.platformText(), DescriptorAnnotations: n.desc.Annotations, Problem: problem(n),
	}
}

func problem(n *node) Problem {
	if n.fault != nil {
		return Problem{Missing: n.fault.code == ChildMissing, Problem: n.fault.text}
	}
	if len(n.notes) > 0 {
		return Problem{Problem: n.notes[0].text}
	}
	return Problem{}
}

func contentSize(m oci.Manifest) int64 {
	total := m.Config.Size
	for _, l := range m.Layers {
		total = plus(total, l.Size)
	}
	return total
}

// contentBelow sums up manifests and blobs below n, each digest once.
func contentBelow(n *node) int64 {
	seen := map[digest.Digest]bool{n.desc.Digest: true}
	var total int64
	n.each(func(n *node) {
		for _, d := range append([]oci.Descriptor{n.desc, n.manifest.Config}, n.manifest.Layers...) {
			if !seen[d.Digest] {
				seen[d.Digest] = true
				total = plus(total, d.Size)
			}
		}
	})
	return total
}

// plus adds sizes that were read from content and may be anything.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
