package registrytest

import (
	"bytes"
	"encoding/json"
)

// Style is how JSON is laid out. The zero value is compact. Clients that pass
// bytes on leave every style as it is; clients that marshal again do not.
type Style struct {
	// Indent of one level: "  " (BuildKit), "   " (Docker), "\t".
	Indent string
	// CRLF ends lines with carriage return and line feed.
	CRLF bool
	// Newline ends the text with a line end.
	Newline bool
}

// apply lays out valid JSON again; invalid JSON stays.
func (s Style) apply(b []byte) []byte {
	var out bytes.Buffer
	if s.Indent == "" && json.Compact(&out, b) != nil || s.Indent != "" && json.Indent(&out, b, "", s.Indent) != nil {
		return b
	}
	text := out.Bytes()
	if s.Newline {
		text = append(text, '\n')
	}
	if s.CRLF {
		text = bytes.ReplaceAll(text, []byte("\n"), []byte("\r\n"))
	}
	return text
}

// encode writes v with extra members at the end of the object, in the order of
// their names.
func (s Style) encode(v any, extra map[string]any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(extra) > 0 {
		more, err := json.Marshal(extra) // sorted by name
		if err != nil {
			return nil, err
		}
		b = append(append(b[:len(b)-1], ','), more[1:]...)
	}
	return s.apply(b), nil
}
