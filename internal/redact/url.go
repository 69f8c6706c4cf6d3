// Package redact keeps secrets out of what is shown: logins and tokens in
// addresses. It recognises them by their place, not by what they look like.
//
// [URL] is for one that is parsed, [Word] for one as somebody wrote it, well
// formed or not, [Text] for sentences that quote some, [Error] for errors of
// others. Read words.go first.
package redact

import (
	"net/url"
	"slices"
	"strings"
)

// shown are the query parameters whose values are no secret. Everything else is
// a token, a signature or an upload's state until proven otherwise.
var shown = []string{
	"mount", "from", "digest", "n", "last", "scope", "service", "artifactType", "tag", // of registries
	"ref", "branch", "subdir", "commit", "checksum", // of sources in git
	"cacert", "cert", "servername", // of nodes
}

// URL is a URL for logs: without user info, fragment and the values of query
// parameters that may be secret.
func URL(u *url.URL) string {
	s := u.Scheme + "://" + u.Host + u.EscapedPath()
	if query := hideValues(u.RawQuery); query != "" {
		s += "?" + query
	}
	return s
}

// hideValues rewrites a query.
func hideValues(query string) string {
	var out []string
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		switch {
		case part == "":
		case slices.Contains(shown, name):
			out = append(out, part)
		default:
			out = append(out, name+"=REDACTED")
		}
	}
	return strings.Join(out, "&")
}
