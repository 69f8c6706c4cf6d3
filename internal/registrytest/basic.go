package registrytest

import (
	"io"
	"net/http"
)

type basicAuth struct{ username, password string }

func (b *basicAuth) ok(r *http.Request) bool {
	u, p, ok := r.BasicAuth()
	return ok && u == b.username && p == b.password
}

func (b *basicAuth) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if b.ok(r) {
			next.ServeHTTP(w, r)
			return
		}
		challenge(w, r, `Basic realm="registrytest"`)
	})
}

// challenge answers 401.
func challenge(w http.ResponseWriter, r *http.Request, header string) {
	_, _ = io.Copy(io.Discard, r.Body)
	a := problem(http.StatusUnauthorized, "UNAUTHORIZED", "authentication required")
	a.Header.Set("WWW-Authenticate", header)
	a.write(w, r)
}
