package audit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// checker turns a loaded image into findings.
type checker struct {
	o        Options
	findings []Finding
	// images are all of the tree, in order; digests are theirs.
	images  []*node
	digests map[digest.Digest]bool
}

func check(root *node, o Options) []Finding {
	c := checker{o: o, findings: []Finding{}, digests: map[digest.Digest]bool{}}
	root.each(func(n *node) {
		if n.role == image {
			c.images = append(c.images, n)
			c.digests[n.desc.Digest] = true
		}
	})
	c.root(root)
	root.each(c.node)
	c.duplicates()
	c.platforms()
	return c.findings
}

func (c *checker) add(s Severity, n *node, f fault) {
	c.findings = append(c.findings, Finding{
		Code: f.code, Severity: s, Digest: n.desc.Digest, Platform: n.platformText(), Path: n.path, Text: f.text,
	})
}

// root looks at what the reference names. An image alone is what somebody wants
// who asks for one platform; to anybody else it is the rest of an index that was
// lost. What runs nowhere is nobody's image.
func (c *checker) root(n *node) {
	switch {
	case n.role == index || n.fault != nil:
	case n.role != image:
		c.add(Fault, n, fault{code: NotAnIndex, text: "is the manifest of an artifact, which holds no image"})
	case len(c.o.Platforms) == 1:
		c.add(Note, n, fault{code: NotAnIndex, text: "is the manifest of one image, not an index"})
	default:
		c.add(Fault, n, fault{code: NotAnIndex, text: "is the manifest of one image, not an index"})
	}
}

func (c *checker) node(n *node) {
	for _, f := range n.notes {
		c.add(Fault, n, f)
	}
	if n.fault != nil {
		c.add(Fault, n, *n.fault)
	}
	for _, p := range n.parts {
		c.part(n, p)
	}
	switch n.role {
	case index:
		c.index(n)
	case image:
		c.image(n)
	case attestation:
		c.attestation(n)
	}
}

func (c *checker) part(n *node, p part) {
	f := Finding{Code: p.code, Severity: Fault, Digest: p.digest, Platform: n.platformText(), Path: n.below(), Text: p.text}
	if n.role == blob {
		f.Path = n.path
	}
	c.findings = append(c.findings, f)
}

func (c *checker) index(n *node) {
	if len(n.path) > 0 && (n.fault == nil || n.fault.code != NestedIndex) {
		c.add(Fault, n, fault{code: NestedIndex, text: "is an index inside an index, which some runtimes do not open"})
	}
	if !n.parsed {
		return
	}
	if len(n.index.Manifests) == 0 || len(n.children) > 0 && !slices.ContainsFunc(n.children, leadsToImage) {
		c.add(Fault, n, fault{code: EmptyIndex, text: "holds no image"})
	}
	if n.index.MediaType != oci.MediaTypeDockerList {
		return
	}
	for _, e := range n.index.Manifests {
		if !strings.HasPrefix(e.MediaType, "application/vnd.docker.") {
			c.add(Note, n, fault{code: MixedTypes, text: "is a Docker manifest list that holds " + e.MediaType})
			return
		}
	}
}

func leadsToImage(n *node) bool { return n.role == image || n.role == index }

// image compares the label by which runtimes choose an image with what the image
// says of itself.
func (c *checker) image(n *node) {
	if p, _ := n.platform(); p == nil && n.configTold() {
		c.add(Fault, n, fault{code: PlatformMissing, text: "has no platform, neither in its descriptor nor in its config"})
		return
	}
	if oci.IsUnknownPlatform(n.desc.Platform) || oci.IsUnknownPlatform(n.config) {
		return
	}
	if label, config := *n.desc.Platform, *n.config; oci.PlatformsContradict(label, config) {
		c.add(Fault, n, fault{code: PlatformMismatch, text: fmt.Sprintf(
			"is labelled %s, its config says %s", oci.FormatPlatform(label), oci.FormatPlatform(config))})
	}
}

// attestation must speak of an image that is here: a child whose digest was
// changed on the way is found by the attestation that it left behind.
func (c *checker) attestation(n *node) {
	switch {
	case n.subject == "":
		c.add(Fault, n, fault{code: AttestationUnbound, text: "is an attestation that names no image"})
	case !c.digests[n.subject]:
		c.add(Fault, n, fault{code: AttestationUnbound, text: fmt.Sprintf("is an attestation of %s, which is not here", n.subject)})
	}
}

// duplicates finds two images for one platform, by the labels that runtimes
// choose by.
func (c *checker) duplicates() {
	first := map[string]*node{}
	for _, n := range c.images {
		p, _ := n.platform()
		if p == nil {
			continue
		}
		other, ok := first[oci.PlatformKey(*p)]
		if !ok {
			first[oci.PlatformKey(*p)] = n
			continue
		}
		if other.desc.Digest != n.desc.Digest {
			c.add(Fault, n, fault{code: DuplicatePlatform, text: fmt.Sprintf("is for the same platform as %s", other.desc.Digest)})
		}
	}
}

// platforms compares what is here with what must be.
func (c *checker) platforms() {
	for _, want := range c.o.Platforms {
		if !slices.ContainsFunc(c.images, func(n *node) bool { return satisfies(n, want) }) {
			c.findings = append(c.findings, Finding{
				Code: PlatformAbsent, Severity: Fault, Platform: oci.FormatPlatform(want), Text: "no image is for this platform; there is " + c.have(),
			})
		}
	}
	if !c.o.Exact {
		return
	}
	for _, n := range c.images {
		if !slices.ContainsFunc(c.o.Platforms, func(want oci.Platform) bool { return satisfies(n, want) }) {
			c.add(Fault, n, fault{code: PlatformUnexpected, text: "is for a platform that was not asked for"})
		}
	}
}

func satisfies(n *node, want oci.Platform) bool {
	p, _ := n.platform()
	return p != nil && oci.SatisfiesPlatform(want, *p)
}

func (c *checker) have() string {
	var out []string
	for _, n := range c.images {
		if p := n.platformText(); p != "" && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
