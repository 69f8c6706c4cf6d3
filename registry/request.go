package registry

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/httpchain"
)

// call is one request of a verb.
type call struct {
	// op and object are for errors: what is done, and to what.
	op, object string
	method     string
	// path is below the repository: "manifests/1".
	path  string
	query string
	// at replaces path and query by a URL that the registry gave.
	at     *url.URL
	header http.Header
	// body is opened anew for every attempt; size is its length.
	body func() (io.ReadCloser, error)
	size int64
	// once: not to be repeated blindly when the answer is lost.
	once bool
	// deleting needs a token that may.
	deleting bool
	// scopes of the token; nil for those of the repository.
	scopes []string
}

// on returns the call for an object of the repository: a tag, a digest, or the
// repository itself.
func (r *Repository) on(op, identifier string) call {
	return call{op: op, object: r.object(identifier), method: http.MethodGet}
}

func (r *Repository) object(identifier string) string {
	switch {
	case identifier == "":
		return r.Name()
	case strings.Contains(identifier, ":"):
		return r.Name() + "@" + identifier
	}
	return r.Name() + ":" + identifier
}

// send makes the request and returns its answer, whatever the status. Errors
// are [*Error].
func (r *Repository) send(ctx context.Context, c call) (*http.Response, error) {
	if c.scopes == nil {
		c.scopes = r.scopes().list(r.ref.Repository, c.deleting)
	}
	leave, err := r.host.gate.enter(ctx, strings.Join(c.scopes, " "))
	if err != nil {
		return nil, r.failed(c, err)
	}
	resp, err := r.exchange(ctx, c)
	leave(err == nil)
	if err != nil {
		return nil, r.failed(c, err)
	}
	return resp, nil
}

func (r *Repository) scopes() *scopes { return r.host.scopesOf(r.ref.Repository) }

// exchange sends the call, and again when the host turns out to speak the other
// scheme.
func (r *Repository) exchange(ctx context.Context, c call) (*http.Response, error) {
	if c.once {
		ctx = httpchain.Once(ctx)
	}
	ctx = authorized(ctx, r.host.name, r.ref.Repository, c.scopes)
	for {
		scheme := r.host.currentScheme()
		req, err := r.request(ctx, c, scheme)
		if err != nil {
			return nil, err
		}
		resp, err := r.sender(req).Do(req)
		if req.URL.Host != r.host.name || !r.host.switched(scheme, resp, err) {
			return resp, err
		}
		drop(resp)
	}
}

// sender keeps the host's login from other hosts.
func (r *Repository) sender(req *http.Request) doer {
	if req.URL.Host == r.host.name {
		return r.client.auth
	}
	return r.client.open
}

func (r *Repository) request(ctx context.Context, c call, scheme string) (*http.Request, error) {
	u := c.at
	if u == nil && !below(c.path) {
		return nil, fmt.Errorf("%q does not stay in the repository", c.path)
	}
	if u == nil {
		u = &url.URL{Scheme: scheme, Host: r.host.name, Path: "/v2/" + r.ref.Repository + "/" + c.path, RawQuery: c.query}
	} else if u.Host == r.host.name {
		// A registry behind a proxy that ends TLS gives plain HTTP locations.
		same := *u
		same.Scheme = scheme
		u = &same
	}
	req, err := http.NewRequestWithContext(ctx, c.method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	for name, values := range c.header {
		req.Header[name] = slices.Clone(values)
	}
	req.Header.Set("User-Agent", r.client.o.UserAgent)
	// Digests are of the bytes as they are stored.
	req.Header.Set("Accept-Encoding", "identity")
	return withBody(req, c)
}

// below reports whether a path stays where it is joined.
func below(p string) bool {
	p = "/" + strings.TrimSuffix(p, "/")
	return path.Clean(p) == p
}

func withBody(req *http.Request, c call) (*http.Request, error) {
	if c.body == nil || c.size == 0 {
		if c.body != nil {
			req.Body = http.NoBody
		}
		return req, nil
	}
	body, err := c.body()
	if err != nil {
		return nil, err
	}
	req.Body, req.GetBody, req.ContentLength = body, c.body, c.size
	return req, nil
}

// of returns a body that is in memory.
func of(b []byte) func() (io.ReadCloser, error) {
	return func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil }
}

// do sends a call and returns the answer if it has one of the statuses wanted.
func (r *Repository) do(ctx context.Context, c call, wanted ...int) (*http.Response, error) {
	resp, err := r.send(ctx, c)
	if err != nil {
		return nil, err
	}
	if slices.Contains(wanted, resp.StatusCode) {
		return resp, nil
	}
	return nil, r.refused(c, resp)
}

// drop closes an answer, reading what little is left so that its connection is
// used again.
func drop(resp *http.Response) {
	if resp == nil {
		return
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxErrorBody)
	_ = resp.Body.Close()
}

// peek reads the start of an answer and puts it back.
func peek(resp *http.Response) string {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(b), resp.Body), resp.Body}
	return string(b)
}

// fromRegistry reports whether a 404 without a body was a registry's: a proxy
// does not send these.
func fromRegistry(h http.Header) bool {
	return h.Get("Docker-Distribution-Api-Version") != "" || strings.HasPrefix(h.Get("Content-Type"), "application/json")
}
