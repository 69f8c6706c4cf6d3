package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text makes text that holds foreign parts fit for a terminal: what would move
// the cursor, change colours, reverse the direction of writing or end a line
// elsewhere is written as Go writes it in a string, "\x1b". Line ends and tabs
// stay.
func Text(s string) string { return printable(s, "\n\t") }

// Line does the same with one foreign value, which has no line ends of its own.
func Line(s string) string { return printable(s, "") }

func printable(s, keep string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !allowed(r, keep) }) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 || !allowed(r, keep) {
			quoted := strconv.QuoteToASCII(s[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

func allowed(r rune, keep string) bool {
	return r != utf8.RuneError && unicode.IsPrint(r) || strings.ContainsRune(keep, r)
}

// Document does the same with a JSON document of somebody else: what is in its
// strings is escaped as JSON has it, and means the same.
func Document(s string) string { return escape(s, "\n\t") }

// escapeJSON does the same with a JSON document of this program, which has such
// characters in strings only.
func escapeJSON(s string) string { return escape(s, "\n") }

func escape(s, keep string) string {
	if printable(s, keep) == s {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case allowed(r, keep):
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
