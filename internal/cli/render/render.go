// Package render draws results and events for a reader: text for people, JSON
// for programs.
//
// It decides nothing and asks nobody: values in, bytes out. Text has no control
// codes. The JSON of each document is a struct of this package or of the root
// package, so that its shape is a promise that can be read.
//
// Read receipt.go first (what a publish prints), then tree.go (inspect) and
// findings.go (verify).
package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// JSON writes v as one document, indented by two spaces, with a newline. What a
// terminal would act on is escaped, so that the document can be looked at.
func JSON(w io.Writer, v any) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(b.String()))
	return err
}

// Bytes writes a size the way people read it: "512 B", "1.5 MB". The units are
// powers of 1000, as in the field's other tools.
func Bytes(n int64) string {
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n), ""
	for _, unit = range []string{"kB", "MB", "GB", "TB"} {
		if f /= 1000; f < 999.95 {
			break
		}
	}
	return fmt.Sprintf("%.1f %s", f, unit)
}
