package httpchain

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Challenge is one way of authenticating that a server offers (RFC 9110,
// 11.6.1).
type Challenge struct {
	// Scheme as the server spells it.
	Scheme string
	// Params in order, names in lower case; a token68 is not kept.
	Params []Param
}

// Param is a parameter of a challenge, unquoted.
type Param struct{ Name, Value string }

// String is the canonical spelling: every value quoted.
func (c Challenge) String() string {
	parts := make([]string, len(c.Params))
	for i, p := range c.Params {
		parts[i] = p.Name + "=" + strconv.Quote(p.Value)
	}
	return strings.TrimSpace(c.Scheme + " " + strings.Join(parts, ","))
}

// ParseChallenges reads all challenges of all WWW-Authenticate lines, in order.
// A comma separates parameters and challenges alike: what follows one is a
// parameter when it is a name with "=", else a new scheme. What cannot be read
// is skipped.
func ParseChallenges(lines []string) []Challenge {
	var out []Challenge
	for _, line := range lines {
		out = append(out, parseLine(line)...)
	}
	return out
}

func parseLine(s string) []Challenge {
	var out []Challenge
	for {
		s = strings.TrimLeft(s, " \t,")
		word, rest := cutToken(s)
		if word == "" {
			if s == "" {
				return out
			}
			s = s[1:]
			continue
		}
		value, after, isParam := cutValue(rest)
		switch {
		case isParam && len(out) > 0:
			last := &out[len(out)-1]
			last.Params = append(last.Params, Param{Name: strings.ToLower(word), Value: value})
			s = after
		case isParam:
			s = after // a parameter of nothing
		default:
			out = append(out, Challenge{Scheme: word})
			s = skipToken68(rest)
		}
	}
}

// cutToken cuts a token (RFC 9110, 5.6.2) off the front.
func cutToken(s string) (token, rest string) {
	i := strings.IndexFunc(s, func(r rune) bool {
		return r >= 0x7f || r <= ' ' || strings.ContainsRune(`"(),/:;<=>?@[\]{}`, r)
	})
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// cutValue reads "= value" with spaces allowed around the sign.
func cutValue(s string) (value, rest string, ok bool) {
	s = strings.TrimLeft(s, " \t")
	s, ok = strings.CutPrefix(s, "=")
	if !ok {
		return "", "", false
	}
	s = strings.TrimLeft(s, " \t")
	if strings.HasPrefix(s, `"`) {
		value, rest = unquote(s[1:])
		return value, rest, true
	}
	// Not only a token: realms are sent unquoted, slashes and all.
	i := strings.IndexAny(s, ", \t")
	if i < 0 {
		return s, "", true
	}
	return s[:i], s[i:], true
}

// unquote reads up to the closing quote, which may be missing.
func unquote(s string) (value, rest string) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:]
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// skipToken68 skips the blob that some schemes have in place of parameters.
func skipToken68(s string) string {
	rest := strings.TrimLeft(s, " \t")
	if rest == s {
		return s
	}
	end := strings.IndexAny(rest, ", \t")
	if end < 0 {
		end = len(rest)
	}
	if word := rest[:end]; isToken68(word) && (strings.HasSuffix(word, "=") || !startsParam(rest)) {
		return rest[end:]
	}
	return s
}

// isToken68 reports whether s has the shape of base64 with its padding.
func isToken68(s string) bool {
	s = strings.TrimRight(s, "=")
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-._~+/", r)
	})
}

// startsParam reports whether s begins with "name =".
func startsParam(s string) bool {
	word, rest := cutToken(s)
	return word != "" && strings.HasPrefix(strings.TrimLeft(rest, " \t"), "=")
}

// Choose returns the challenge to answer: Bearer before Basic, whatever the
// letter case; ok is false when neither is offered.
func Choose(cs []Challenge) (Challenge, bool) {
	for _, scheme := range []string{"Bearer", "Basic"} {
		i := slices.IndexFunc(cs, func(c Challenge) bool { return strings.EqualFold(c.Scheme, scheme) })
		if i >= 0 {
			return Challenge{Scheme: scheme, Params: cs[i].Params}, true
		}
	}
	return Challenge{}, false
}

// challenges leaves a 401 with the one challenge that is to be answered, since
// the authentication above reads one line with one challenge only (see
// google/go-containerregistry#1075).
type challenges struct{ next http.RoundTripper }

func (t *challenges) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusUnauthorized {
		return resp, err
	}
	if c, ok := Choose(ParseChallenges(resp.Header.Values("Www-Authenticate"))); ok {
		resp.Header.Set("Www-Authenticate", c.String())
	}
	return resp, nil
}
