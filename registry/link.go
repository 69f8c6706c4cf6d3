package registry

import "strings"

// nextLink reads the target of rel="next" from Link headers (RFC 8288), "" when
// there is none. Quotes around the relation may be missing.
func nextLink(lines []string) string {
	for _, line := range lines {
		for line != "" {
			var target, params string
			target, params, line = cutLink(line)
			if target != "" && isNext(params) {
				return target
			}
		}
	}
	return ""
}

// cutLink cuts "<target>; params" off a list. Commas in the target and in
// quotes do not end it.
func cutLink(s string) (target, params, rest string) {
	open := strings.IndexByte(s, '<')
	if open < 0 {
		return "", "", ""
	}
	s = s[open+1:]
	target, s, ok := strings.Cut(s, ">")
	if !ok {
		return "", "", ""
	}
	quoted := false
	for i := range len(s) {
		switch {
		case s[i] == '"':
			quoted = !quoted
		case s[i] == ',' && !quoted:
			return target, s[:i], s[i+1:]
		}
	}
	return target, s, ""
}

func isNext(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(p), "=")
		if !strings.EqualFold(strings.TrimSpace(name), "rel") {
			continue
		}
		for rel := range strings.FieldsSeq(strings.Trim(strings.TrimSpace(value), `"`)) {
			if strings.EqualFold(rel, "next") {
				return true
			}
		}
	}
	return false
}
