package registry

import (
	"errors"
	"net/http"
	"net/url"
)

// maxRedirects is net/http's own bound, which a client with a rule of its own
// has to bring along.
const maxRedirects = 10

var errRedirects = errors.New("more than 10 redirects")

// redirected is the rule for redirects. A login stays with the host it is for:
// net/http takes it out when the name changes, not when the port or the scheme
// does, and begins each hop with the headers of the first request.
func redirected(req *http.Request, via []*http.Request) error {
	if len(via) >= maxRedirects {
		return errRedirects
	}
	for _, r := range append(via[1:len(via):len(via)], req) {
		if !sameOrigin(via[0].URL, r.URL) {
			req.Header.Del("Authorization")
		}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool { return a.Scheme == b.Scheme && a.Host == b.Host }
