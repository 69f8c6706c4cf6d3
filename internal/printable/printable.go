// Package printable makes text that holds foreign parts fit for a terminal: names,
// excerpts and answers come from registries, nodes and Dockerfiles.
package printable

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text writes what would move the cursor, change colours, reverse the direction
// of writing or end a line elsewhere as Go writes it in a string, "\x1b". Line
// ends and tabs stay.
func Text(s string) string { return escaped(s, "\n\t") }

// Line does the same with one value, which has no line ends of its own.
func Line(s string) string { return escaped(s, "") }

// Allowed reports whether a character may be shown as it is; those in keep may.
func Allowed(r rune, keep string) bool {
	return r != utf8.RuneError && unicode.IsPrint(r) || strings.ContainsRune(keep, r)
}

func escaped(s, keep string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !Allowed(r, keep) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !Allowed(r, keep) {
			quoted := strconv.QuoteToASCII(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// Writer passes text on to w as [Text] has it. Each Write is a text of its own.
// The line ends of other systems become those of this one.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ w io.Writer }

func (w writer) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.w, Text(strings.ReplaceAll(string(b), "\r\n", "\n"))); err != nil {
		return 0, err
	}
	return len(b), nil
}
