package redact

import (
	"regexp"
	"strings"
	"unicode"
)

// hidden stands for a login, as net/url has it.
const hidden = "xxxxx@"

// Text is a text with the addresses in it redacted: what begins with a scheme
// and ends at white space.
func Text(s string) string {
	var b strings.Builder
	for {
		i := strings.Index(s, "://")
		if i < 0 {
			b.WriteString(s)
			return b.String()
		}
		end := strings.IndexFunc(s[i:], unicode.IsSpace)
		if end < 0 {
			end = len(s) - i
		}
		start := strings.LastIndexFunc(s[:i], notScheme) + 1
		b.WriteString(s[:start])
		b.WriteString(address(s[start:i], s[i+len("://"):i+end]))
		s = s[i+end:]
	}
}

// Word is one value that is meant as an address, or as the name of an image,
// with a scheme or without: u:password@host/x is shown as xxxxx@host/x. White
// space belongs to it.
func Word(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok {
		return withoutLogin("", s, lastAt(s))
	}
	if at := lastAt(rest); at >= 0 && !strings.HasPrefix(rest, "/") {
		rest = withoutLogin(scheme, rest, at)
	}
	return scheme + "://" + withoutValues(rest)
}

// Secret reports whether a word has a login in it.
func Secret(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	if !ok {
		rest = s
	}
	return lastAt(rest) >= 0
}

// notScheme ends a scheme, seen from its colon.
func notScheme(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("+-.", r)
}

// address is what follows a scheme in a text. The login is in the authority; a
// slash in a password that nobody has escaped ends that early, which shows by a
// port that is none.
func address(scheme, rest string) string {
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := lastAt(rest[:end])
	if _, port, ok := strings.Cut(rest[:end], ":"); at < 0 && ok && port != "" && strings.Trim(port, "0123456789") != "" {
		at = lastAt(rest)
	}
	return scheme + "://" + withoutValues(withoutLogin(scheme, rest, at))
}

// lastAt is where the login ends, -1 when there is none: an @ before a digest is
// another.
func lastAt(s string) int {
	at := strings.LastIndexByte(s, '@')
	for at >= 0 && digests.MatchString(s[at+1:]) {
		at = strings.LastIndexByte(s[:at], '@')
	}
	return at
}

// digests are what is meant as a digest, well formed or not, with what may stand
// behind it in a text.
var digests = regexp.MustCompile(`^(sha[0-9]+:[0-9A-Za-z]*|[a-z0-9+._-]+:[0-9a-f]{32,})([^/0-9A-Za-z]|$)`)

// withoutLogin hides what stands before an @. Of a login by ssh the user is
// shown, who is no secret there.
func withoutLogin(scheme, s string, at int) string {
	if at < 0 {
		return s
	}
	user, _, password := strings.Cut(s[:at], ":")
	switch {
	case scheme == "ssh" && password:
		return user + ":" + hidden + s[at+1:]
	case scheme == "ssh":
		return s
	}
	return hidden + s[at+1:]
}

// withoutValues hides those of a query, and keeps the fragment and what quotes
// the address.
func withoutValues(s string) string {
	before, query, ok := strings.Cut(s, "?")
	if !ok || !strings.Contains(query, "=") {
		return s
	}
	end := strings.IndexAny(query, "#\"'`<>)]},;")
	if end < 0 {
		end = len(query)
	}
	return before + "?" + hideValues(query[:end]) + query[end:]
}
