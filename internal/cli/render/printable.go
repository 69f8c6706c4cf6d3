package render

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf16"

	"github.com/manifold-oci/manifold/internal/printable"
)

// Text is [printable.Text].
func Text(s string) string { return printable.Text(s) }

// Line is [printable.Line].
func Line(s string) string { return printable.Line(s) }

// Document makes a JSON document of somebody else fit for a terminal: what is in its
// strings is escaped as JSON has it, and means the same.
func Document(s string) string { return escape(s, "\n\t") }

// escapeJSON does the same with a JSON document of this program, which has such
// characters in strings only.
func escapeJSON(s string) string { return escape(s, "\n") }

func escape(s, keep string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case printable.Allowed(r, keep):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// write writes a whole text.
func write(w io.Writer, b *strings.Builder) error {
	_, err := io.WriteString(w, Text(b.String()))
	return err
}
