package registrytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// TokenOptions set up a token server. The zero value asks for no credentials
// and grants everything.
type TokenOptions struct {
	// Username and Password, when set, are asked for with Basic, or in the form
	// of an OAuth2 POST.
	Username, Password string
	// RefreshToken, when set, is accepted in an OAuth2 POST with grant_type
	// refresh_token (an identity token in Docker's configuration).
	RefreshToken string
	// AnonymousPull grants pull to who sends no credentials.
	AnonymousPull bool
	// Grant decides about each action on a resource ("repository:NAME"); nil
	// grants all. A request for more than is granted gets a token for less.
	Grant func(user, resource, action string) bool
	// Uses is how many requests a token is good for, 0 for any number.
	Uses int
	// ExpiresIn is the life that the answer tells, in seconds; 0 tells none. It
	// has no effect: tokens expire by Uses or [Registry.ExpireTokens].
	ExpiresIn int
	// AccessTokenOnly names the token access_token only, else it is both token
	// and access_token.
	AccessTokenOnly bool
	// LastScopeOnly looks at the last of several scope parameters only, as some
	// token servers did.
	LastScopeOnly bool
}

// TokenRequest is a request to the token server that was answered with a token
// or refused.
type TokenRequest struct {
	// Method is GET, or POST for OAuth2.
	Method string
	// Service and Scopes are what was asked for, a scope parameter per element.
	Service string
	Scopes  []string
	// Auth is the scheme of the Authorization header; GrantType is that of a
	// POST.
	Auth, GrantType string
	// User is who was recognised, empty for nobody.
	User string
	// Status that was answered.
	Status int
}

const service = "registrytest"

type tokenServer struct {
	o      TokenOptions
	realm  string
	faults *faults

	mu       sync.Mutex
	issued   map[string]*token
	requests []TokenRequest
}

type token struct {
	scopes []scope
	used   int
}

func newTokenServer(t testing.TB, o TokenOptions) *tokenServer {
	s := &tokenServer{o: o, issued: map[string]*token{}, faults: &faults{t: t}}
	srv := newServer(t, s.faults.wrap(http.HandlerFunc(s.serve)), false)
	s.realm = srv.URL + "/token"
	t.Cleanup(s.faults.check)
	return s
}

// TokenRequests are those that the token server answered so far.
func (r *Registry) TokenRequests() []TokenRequest {
	r.tokens.mu.Lock()
	defer r.tokens.mu.Unlock()
	return append([]TokenRequest(nil), r.tokens.requests...)
}

// TokenHost is host:port of the token server.
func (r *Registry) TokenHost() string {
	return strings.TrimSuffix(strings.TrimPrefix(r.tokens.realm, "http://"), "/token")
}

// TokenFault puts a fault of the token server in force.
func (r *Registry) TokenFault(f Fault) *Rule { return r.tokens.faults.add(f) }

// ExpireTokens makes every token issued so far invalid.
func (r *Registry) ExpireTokens() {
	r.tokens.mu.Lock()
	defer r.tokens.mu.Unlock()
	clear(r.tokens.issued)
}

// serve issues a token: https://distribution.github.io/distribution/spec/auth/token/
// for GET, .../auth/oauth/ for POST.
func (s *tokenServer) serve(w http.ResponseWriter, r *http.Request) {
	if err := r.ParseForm(); err != nil || r.URL.Path != "/token" {
		problem(http.StatusBadRequest, "UNSUPPORTED", "not a token request").write(w, r)
		return
	}
	scheme, _, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	q := TokenRequest{
		Method: r.Method, Service: r.Form.Get("service"), Scopes: r.Form["scope"],
		Auth: scheme, GrantType: r.PostForm.Get("grant_type"), Status: http.StatusOK,
	}
	user, ok := s.user(r)
	q.User = user
	if !ok {
		q.Status = http.StatusUnauthorized
		s.note(q)
		challenge(w, r, `Basic realm="registrytest"`)
		return
	}
	s.issue(w, q)
}

func (s *tokenServer) note(q TokenRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, q)
}

// user recognises who asks; ok is false for wrong credentials, and for none
// where some are needed.
func (s *tokenServer) user(r *http.Request) (user string, ok bool) {
	if r.Method == http.MethodPost {
		return s.oauthUser(r)
	}
	u, p, given := r.BasicAuth()
	switch {
	case !given:
		return "", s.o.Username == "" || s.o.AnonymousPull
	case u == s.o.Username && p == s.o.Password:
		return u, true
	}
	return "", false
}

func (s *tokenServer) oauthUser(r *http.Request) (user string, ok bool) {
	form := r.PostForm
	switch form.Get("grant_type") {
	case "refresh_token":
		return "identity", s.o.RefreshToken != "" && form.Get("refresh_token") == s.o.RefreshToken
	case "password":
		return form.Get("username"), form.Get("username") == s.o.Username && form.Get("password") == s.o.Password
	}
	return "", false
}

func (s *tokenServer) issue(w http.ResponseWriter, q TokenRequest) {
	asked := q.Scopes
	if s.o.LastScopeOnly && len(asked) > 1 {
		asked = asked[len(asked)-1:]
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	name := fmt.Sprintf("token-%d", len(s.requests))
	s.issued[name] = &token{scopes: s.granted(q.User, parseScopes(asked))}
	s.mu.Unlock()

	answer := map[string]any{"access_token": name}
	if !s.o.AccessTokenOnly {
		answer["token"] = name
	}
	if s.o.ExpiresIn != 0 {
		answer["expires_in"] = s.o.ExpiresIn
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client may be gone
}

func (s *tokenServer) granted(user string, asked []scope) []scope {
	var out []scope
	for _, a := range asked {
		g := scope{resource: a.resource}
		for _, action := range a.actions {
			if s.grants(user, a.resource, action) {
				g.actions = append(g.actions, action)
			}
		}
		out = append(out, g)
	}
	return out
}

func (s *tokenServer) grants(user, resource, action string) bool {
	if user == "" && s.o.Username != "" && action != "pull" {
		return false
	}
	return s.o.Grant == nil || s.o.Grant(user, resource, action)
}

// wrap lets requests with a fitting token through.
func (s *tokenServer) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		needed := neededScopes(r)
		reason, ok := s.check(r, needed)
		if ok {
			next.ServeHTTP(w, r)
			return
		}
		header := fmt.Sprintf(`Bearer realm=%q,service=%q`, s.realm, service)
		if len(needed) > 0 {
			header += fmt.Sprintf(`,scope=%q`, formatScopes(needed))
		}
		if reason != "" {
			header += fmt.Sprintf(`,error=%q`, reason)
		}
		challenge(w, r, header)
	})
}

// check uses a token once. The reason is what a challenge says about a token
// that was refused, RFC 6750, section 3.1.
func (s *tokenServer) check(r *http.Request, needed []scope) (reason string, ok bool) {
	name, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.issued[name]
	switch {
	case t == nil || s.o.Uses > 0 && t.used == s.o.Uses:
		return "invalid_token", false
	case !covers(t.scopes, needed):
		return "insufficient_scope", false
	}
	t.used++
	return "", true
}
