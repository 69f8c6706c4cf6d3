package registry

import (
	"context"
	"encoding/base64"
	"log/slog"
	"net/http"
	"strings"
	"sync"

	"oras.land/oras-go/v2/registry/remote/auth"
)

// doer sends an authenticated request. It is the whole of what this package
// needs of a login library.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// authorizer answers challenges, on the login client of oras-go. What is added
// to it: credentials per repository, Basic logins without a challenge
// each, and one new token when many requests find theirs expired.
type authorizer struct {
	doer
	credentials func(context.Context, string) (Credential, error)

	// log tells, once per host, where its login came from.
	log *slog.Logger

	mu      sync.Mutex
	sources map[string]string // host: how it was logged in to
}

func newAuthorizer(chain http.RoundTripper, credentials func(context.Context, string) (Credential, error)) *authorizer {
	a := &authorizer{credentials: credentials, sources: map[string]string{}}
	a.doer = &auth.Client{
		Client:     &http.Client{Transport: chain, CheckRedirect: redirected},
		Credential: a.credential,
		Cache:      &tokens{Cache: auth.NewCache(), basic: a.basic},
		ClientID:   "manifold",
	}
	return a
}

// credential looks a login up and remembers where it came from.
func (a *authorizer) credential(ctx context.Context, host string) (auth.Credential, error) {
	if a.credentials == nil {
		a.remember(host, Credential{})
		return auth.EmptyCredential, nil
	}
	c, err := a.credentials(ctx, refHost(host))
	if err != nil {
		return auth.EmptyCredential, &CredentialError{Host: refHost(host), Cause: err}
	}
	a.remember(host, c)
	return auth.Credential{Username: c.Username, Password: c.Password, RefreshToken: c.RefreshToken, AccessToken: c.AccessToken}, nil
}

func (a *authorizer) remember(host string, c Credential) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if how := c.how(); a.sources[host] != how {
		a.sources[host] = how
		if a.log != nil {
			a.log.Debug("login", "host", host, "asked", how)
		}
	}
}

// basic is the Basic login of a host, "" when there is none.
func (a *authorizer) basic(ctx context.Context, host string) string {
	c, err := a.credential(ctx, host)
	if err != nil || c.Username == "" || c.Password == "" {
		return ""
	}
	return base64.StdEncoding.EncodeToString([]byte(c.Username + ":" + c.Password))
}

// login says how a host was logged in to, once it wanted that.
func (a *authorizer) login(host string) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.sources[host]
}

// try is the state of one request on its way through the login client.
type try struct {
	repository string
	// token is what it was sent with last.
	token string
}

type tryKey struct{}

// authorized prepares a request's context: the scopes to ask for and the
// repository that credentials may be kept for.
func authorized(ctx context.Context, host, repository string, scopes []string) context.Context {
	ctx = context.WithValue(ctx, tryKey{}, &try{repository: repository})
	return auth.WithScopesForHost(ctx, host, scopes...)
}

func tryOf(ctx context.Context) *try {
	if t, ok := ctx.Value(tryKey{}).(*try); ok {
		return t
	}
	return &try{}
}

// tokens is the cache of the login client.
type tokens struct {
	auth.Cache
	basic func(ctx context.Context, host string) string
}

// key keeps Basic logins apart by repository, since they may differ.
func (c *tokens) key(ctx context.Context, scheme auth.Scheme, key string) string {
	if scheme == auth.SchemeBasic {
		return tryOf(ctx).repository
	}
	return key
}

// GetToken returns the token to send a request with. On a host that is known to
// want Basic, a repository's login needs no challenge of its own.
func (c *tokens) GetToken(ctx context.Context, host string, scheme auth.Scheme, key string) (string, error) {
	token, err := c.Cache.GetToken(ctx, host, scheme, c.key(ctx, scheme, key))
	if err != nil && scheme == auth.SchemeBasic {
		if login := c.basic(ctx, host); login != "" {
			token, err = c.Cache.Set(ctx, host, scheme, c.key(ctx, scheme, key), func(context.Context) (string, error) { return login, nil })
		}
	}
	tryOf(ctx).token = token
	return token, err
}

// Set fetches a token, unless another request did so while this one was under
// way with the old one.
func (c *tokens) Set(ctx context.Context, host string, scheme auth.Scheme, key string, fetch func(context.Context) (string, error)) (string, error) {
	key = c.key(ctx, scheme, key)
	if token, err := c.Cache.GetToken(ctx, host, scheme, key); err == nil && token != tryOf(ctx).token {
		return token, nil
	}
	return c.Cache.Set(ctx, host, scheme, key, func(ctx context.Context) (string, error) {
		token, err := fetch(ctx)
		return strings.TrimSpace(token), err
	})
}
