package render

import (
	"errors"
	"testing"

	"github.com/manifold-oci/manifold/audit"
)

// TestTemplatesTakeTheNamesOfTheJSON, those of Go fields, and nothing else.
func TestTemplatesTakeTheNamesOfTheJSON(t *testing.T) {
	doc := Inspection{Name: "r/a:1", Tree: audit.Tree{Digest: "sha256:1", Images: []audit.Image{{Platform: "linux/amd64", Layers: 2}}}}
	for text, want := range map[string]string{
		"{{.name}} {{.digest}}": "r/a:1 sha256:1",
		"{{.Name}} {{.Digest}}": "r/a:1 sha256:1",
		"{{range .images}}{{.platform}} {{.layers}} {{if .missing}}gone{{end}}{{.problem}}{{end}}": "linux/amd64 2 ",
		"{{if .subject}}has{{else}}none{{end}}":                                                    "none",
		"{{json .digest}}":                                                                         `"sha256:1"`,
	} {
		parsed, err := ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := Execute(parsed, doc); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	parsed, err := ParseTemplate("{{.name}} {{.Manifest}}")
	if err != nil {
		t.Fatal(err)
	}
	var field *FieldError
	if got, err := Execute(parsed, doc); !errors.As(err, &field) || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}
