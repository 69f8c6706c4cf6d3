package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/oci"
)

// Inspection is the document of "inspect --json": the name asked for and the
// tree of package audit.
type Inspection struct {
	Name string `json:"name"`
	audit.Tree
	// Referrers are there when they were asked for.
	Referrers []manifold.Referred `json:"referrers,omitempty"`
}

// NewInspection returns the document.
func NewInspection(i manifold.Inspection) Inspection {
	return Inspection{Name: i.Name, Tree: i.Tree}
}

// Tree writes what a reference names for people.
func Tree(w io.Writer, i Inspection) error {
	t := &tree{}
	t.line("", "%s", i.Name)
	t.index("", i.Tree)
	for _, r := range i.Referrers {
		t.line("", "referrers of %s  %s", r.Of, r.Subject)
		for _, d := range r.Referrers {
			t.line("   ", "%s  %s", orNone(d.ArtifactType), d.Digest)
		}
	}
	return write(w, &t.b)
}

type tree struct{ b strings.Builder }

func (t *tree) line(indent, format string, args ...any) {
	t.b.WriteString(indent)
	fmt.Fprintf(&t.b, format, args...)
	t.b.WriteByte('\n')
}

// index draws the root and everything in it; a root that is an image is drawn
// as its own only one.
func (t *tree) index(indent string, v audit.Tree) {
	if oci.IsIndex(v.MediaType) {
		t.line(indent, "%s  %s  %s%s", kind(v.MediaType), v.Digest, Bytes(v.ContentSize), problem(v.Problem))
		t.annotations(indent+"  ", v.Annotations)
		if v.Subject != "" {
			t.line(indent+"  ", "belongs to %s", v.Subject)
		}
	}
	children := t.children(v)
	for i, draw := range children {
		branch, below := "├─ ", "│  "
		if i == len(children)-1 {
			branch, below = "└─ ", "   "
		}
		draw(indent+branch, indent+below)
	}
}

// children returns one drawing function per entry.
func (t *tree) children(v audit.Tree) []func(head, below string) {
	var out []func(head, below string)
	for _, img := range v.Images {
		out = append(out, func(head, below string) { t.image(head, below, img) })
	}
	for _, nested := range v.Indexes {
		out = append(out, func(head, below string) {
			t.line(head, "nested")
			t.index(below, nested)
		})
	}
	for _, a := range v.Artifacts {
		out = append(out, func(head, _ string) { t.artifact(head, a) })
	}
	for _, a := range v.Attestations {
		out = append(out, func(head, _ string) {
			t.line(head, "attestation without its image  %s  of %s%s", a.Digest, orNone(string(a.Subject)), problem(a.Problem))
		})
	}
	return out
}

func (t *tree) image(head, below string, img audit.Image) {
	from := ""
	if img.PlatformFrom == "config" {
		from = " (from config)"
	}
	t.line(head, "%s%s  %s  %s, %s%s", Line(img.Platform), from, img.Digest, Bytes(img.Size+img.ContentSize), plural(img.Layers, "layer"), problem(img.Problem))
	t.annotations(below, img.DescriptorAnnotations)
	t.annotations(below, img.Annotations)
	for _, a := range img.Attestations {
		t.line(below, "attestation  %s  %s  %s%s", a.Digest, Bytes(a.Size+a.ContentSize), Line(orNone(strings.Join(a.PredicateTypes, ", "))), problem(a.Problem))
	}
}

func (t *tree) artifact(head string, a audit.Artifact) {
	name := a.ArtifactType
	if name == "" {
		name = a.MediaType
	}
	t.line(head, "artifact %s  %s  %s%s", Line(name), a.Digest, Bytes(a.Size+a.ContentSize), problem(a.Problem))
}

func (t *tree) annotations(indent string, all map[string]string) {
	for _, k := range sortedKeys(all) {
		t.line(indent, "%s=%s", Line(k), Line(all[k]))
	}
}

func kind(mediaType string) string {
	switch mediaType {
	case oci.MediaTypeIndex:
		return "OCI index"
	case oci.MediaTypeDockerList:
		return "Docker manifest list"
	}
	return Line(mediaType)
}

func problem(p audit.Problem) string {
	switch {
	case p.Missing:
		return "  MISSING"
	case p.Problem != "":
		return "  " + Line(strings.ToUpper(p.Problem[:1])+p.Problem[1:])
	}
	return ""
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func orNone(s string) string {
	if s == "" {
		return "(none named)"
	}
	return s
}
