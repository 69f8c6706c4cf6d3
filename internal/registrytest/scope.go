package registrytest

import (
	"net/http"
	"slices"
	"strings"
)

// scope is one resource with the actions asked for or granted:
// repository:NAME:pull,push.
type scope struct {
	resource string // type:name
	actions  []string
}

func (s scope) String() string { return s.resource + ":" + strings.Join(s.actions, ",") }

// parseScopes reads the values of scope parameters, each of which may hold
// several scopes. What is not a scope is left out.
func parseScopes(values []string) []scope {
	var out []scope
	for _, s := range strings.Fields(strings.Join(values, " ")) {
		if i := strings.LastIndexByte(s, ':'); i > 0 {
			out = append(out, scope{s[:i], strings.Split(s[i+1:], ",")})
		}
	}
	return out
}

func formatScopes(ss []scope) string {
	texts := make([]string, len(ss))
	for i, s := range ss {
		texts[i] = s.String()
	}
	return strings.Join(texts, " ")
}

// covers reports whether granted holds every action of needed.
func covers(granted, needed []scope) bool {
	for _, n := range needed {
		for _, action := range n.actions {
			if !slices.ContainsFunc(granted, func(g scope) bool {
				return g.resource == n.resource && slices.Contains(g.actions, action)
			}) {
				return false
			}
		}
	}
	return true
}

// neededScopes are those that Distribution asks for.
func neededScopes(r *http.Request) []scope {
	if r.URL.Path == "/v2/_catalog" {
		return []scope{{"registry:catalog", []string{"*"}}}
	}
	p := parsePath(r.URL.Path)
	if p.repo == "" {
		return nil
	}
	needed := []scope{{"repository:" + p.repo, actionsFor(r.Method)}}
	if from := r.URL.Query().Get("from"); p.kind == "uploads" && from != "" {
		needed = append(needed, scope{"repository:" + from, []string{"pull"}})
	}
	return needed
}

func actionsFor(method string) []string {
	switch method {
	case http.MethodGet, http.MethodHead:
		return []string{"pull"}
	case http.MethodDelete:
		return []string{"delete"}
	default:
		return []string{"pull", "push"}
	}
}
