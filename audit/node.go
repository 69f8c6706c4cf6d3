package audit

import (
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// role is what a node is in the image.
type role int

const (
	image role = iota
	index
	attestation
	// artifact is a manifest that runs nowhere.
	artifact
	// blob is an entry of an index that is no manifest.
	blob
)

// node is an entry of an index, or the root, with what was read for it.
type node struct {
	desc oci.Descriptor
	path []digest.Digest
	role role
	// subject is the image that an attestation speaks of, empty if it does not
	// say.
	subject digest.Digest
	// fault ended the reading of this node: nothing below it is known.
	fault *fault
	// notes are further things found on the way.
	notes    []fault
	index    oci.Index
	manifest oci.Manifest
	// parsed says that index or manifest is set.
	parsed   bool
	children []*node
	// config is the platform that the config says, nil if it was not read.
	config *oci.Platform
	// parts are faults of config and layers.
	parts []part
}

// fault is a finding without its place.
type fault struct {
	code Code
	text string
}

// part is a fault of a blob below a node.
type part struct {
	digest digest.Digest
	fault
}

// platform is where the image runs: what the descriptor says, which is what
// runtimes choose by, else what the config says. from names the one it was.
func (n *node) platform() (p *oci.Platform, from string) {
	if !oci.IsUnknownPlatform(n.desc.Platform) {
		return n.desc.Platform, "descriptor"
	}
	if !oci.IsUnknownPlatform(n.config) {
		return n.config, "config"
	}
	return nil, ""
}

// configTold reports whether all that the config says of the platform is known:
// it was read, or is too large to be one. A config that is not there is a fault
// of its own.
func (n *node) configTold() bool {
	return n.parsed && (n.config != nil || n.manifest.Config.Size > oci.MaxConfigSize)
}

func (n *node) platformText() string {
	if p, _ := n.platform(); p != nil {
		return oci.FormatPlatform(*p)
	}
	return ""
}

// below is the path of what n contains.
func (n *node) below() []digest.Digest {
	return append(slices.Clone(n.path), n.desc.Digest)
}

// each calls f for n and everything below it, in the order listed.
func (n *node) each(f func(*node)) {
	f(n)
	for _, c := range n.children {
		c.each(f)
	}
}

// settle decides what a node is, once it is parsed or known to be unreadable.
func (n *node) settle() {
	subject, annotated := oci.IsAttestation(n.desc)
	labelled := !oci.IsUnknownPlatform(n.desc.Platform)
	switch {
	case annotated:
		n.role, n.subject = attestation, subject
	case isIndexNode(n):
		n.role = index
	case n.role == blob:
	case labelled:
		n.role = image
	case n.parsed && isStatement(n.manifest):
		n.role = attestation
	case n.desc.ArtifactType != "", n.parsed && !oci.IsImageConfig(n.manifest.Config.MediaType):
		n.role = artifact
	default:
		n.role = image
	}
}

func isIndexNode(n *node) bool {
	if n.parsed {
		return n.index.MediaType != ""
	}
	return oci.IsIndex(n.desc.MediaType)
}

// isStatement reports a manifest whose layers are all in-toto statements: an
// attestation that lost its annotations, as Docker's manifest command drops
// them.
func isStatement(m oci.Manifest) bool {
	if len(m.Layers) == 0 {
		return false
	}
	return !slices.ContainsFunc(m.Layers, func(d oci.Descriptor) bool { return d.MediaType != mediaTypeStatement })
}

const mediaTypeStatement = "application/vnd.in-toto+json"
