package registry

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Bounds of what is kept of an error answer.
const (
	maxErrorBody = 64 << 10
	maxLine      = 300
)

// refused is an answer with a status that was not expected. It closes the body.
func (r *Repository) refused(c call, resp *http.Response) *Error {
	defer resp.Body.Close()
	e := &Error{Op: c.op, Reference: c.object, Status: resp.StatusCode}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if e.Codes = parseCodes(body); e.Codes == nil {
		e.Summary = summary(resp.Header.Get("Content-Type"), body)
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
		e.Login = r.client.auth.login(r.host.name)
	}
	return e
}

// wireCode is a registry's error; zot sends one without the list around it.
type wireCode struct {
	Code    jsontext.Value `json:"code"`
	Message jsontext.Value `json:"message"`
	Detail  jsontext.Value `json:"detail"`
}

// parseCodes reads the errors of an answer, nil when it has none. It is not
// strict: what it reads is only shown and compared with known codes.
func parseCodes(body []byte) []Code {
	var v struct {
		Errors jsontext.Value `json:"errors"`
		wireCode
	}
	if !unmarshalLoosely(body, &v) {
		return nil
	}
	var wire []wireCode
	if !unmarshalLoosely(v.Errors, &wire) {
		wire = []wireCode{v.wireCode}
	}
	var out []Code
	for _, w := range wire {
		if c := w.code(); c.Code != "" {
			out = append(out, c)
		}
	}
	return out
}

func (w wireCode) code() Code {
	return Code{Code: text(w.Code), Message: text(w.Message), Detail: detail(w.Detail)}
}

func unmarshalLoosely(b []byte, v any) bool {
	return len(b) > 0 && json.Unmarshal(b, v, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) == nil
}

// text is a JSON string on one line, or other JSON as it is.
func text(v jsontext.Value) string {
	var s string
	if unmarshalLoosely(v, &s) {
		return line(s)
	}
	return detail(v)
}

func detail(v jsontext.Value) string {
	if len(v) == 0 || string(v) == "null" {
		return ""
	}
	return line(string(v))
}

// line makes foreign text fit for a message: one line, no control characters,
// not long.
func line(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }), " ")
	if runes := []rune(s); len(runes) > maxLine {
		return string(runes[:maxLine]) + "…"
	}
	return s
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`)

// summary is one line about an answer that is not a registry's.
func summary(contentType string, body []byte) string {
	mediaType, _, _ := mime.ParseMediaType(contentType)
	if len(body) == 0 {
		return ""
	}
	if m := title.FindSubmatch(body); m != nil {
		return fmt.Sprintf("an HTML page, %q", line(string(m[1])))
	}
	if mediaType == "text/html" || strings.HasPrefix(strings.TrimSpace(string(body)), "<") {
		return fmt.Sprintf("%d bytes of %s", len(body), line(mediaType))
	}
	return line(string(body))
}
