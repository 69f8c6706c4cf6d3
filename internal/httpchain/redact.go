package httpchain

import (
	"net/url"
	"slices"
	"strings"
)

// shown are the query parameters whose values are no secret. Everything else is
// a token, a signature or an upload's state until proven otherwise.
var shown = []string{"mount", "from", "digest", "n", "last", "scope", "service", "artifactType", "tag"}

// RedactURL is a URL for logs: without user info, fragment and the values of
// query parameters that may be secret.
func RedactURL(u *url.URL) string {
	var b strings.Builder
	b.WriteString(u.Scheme + "://" + u.Host + u.EscapedPath())
	sep := byte('?')
	for part := range strings.SplitSeq(u.RawQuery, "&") {
		if part == "" {
			continue
		}
		b.WriteByte(sep)
		sep = '&'
		name, _, _ := strings.Cut(part, "=")
		if slices.Contains(shown, name) {
			b.WriteString(part)
			continue
		}
		b.WriteString(name + "=REDACTED")
	}
	return b.String()
}
