package render

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/audit"
)

// Verification is the document of "verify --json".
type Verification struct {
	Name string `json:"name"`
	// OK is true when there is no fault; notes do not count.
	OK bool `json:"ok"`
	audit.Result
}

// NewVerification returns the document.
func NewVerification(name string, r audit.Result) Verification {
	if r.Findings == nil {
		r.Findings = []audit.Finding{}
	}
	return Verification{Name: name, OK: len(r.Faults()) == 0, Result: r}
}

// Findings writes all findings, a line each, and a last line that sums up.
func Findings(w io.Writer, name string, r audit.Result) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%s: %s\n", f.Severity, Line(f.String()))
	}
	if at := "@" + r.Root.Digest.String(); !strings.HasSuffix(name, at) {
		name += at
	}
	n := len(r.Faults())
	if n > 0 {
		fmt.Fprintf(&b, "%s: %s\n", name, plural(n, "fault"))
	} else {
		fmt.Fprintf(&b, "%s: whole, %s\n", name, plural(len(r.Tree.Images), "platform"))
	}
	return write(w, &b)
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
