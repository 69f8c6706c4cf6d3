package registry_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/registry"
)

func serve(t *testing.T, h http.HandlerFunc) (host string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestRedirectsInACircleEnd(t *testing.T) {
	for name, o := range map[string]registry.Options{"anonymous": {}, "with a login": {Credentials: login("u", "p")}} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			host := serve(t, func(w http.ResponseWriter, r *http.Request) {
				asked++
				http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
			})
			_, err := repo(t, host, "d/x", o).Manifest(t.Context(), "1")
			if err == nil || !strings.Contains(err.Error(), "more than 10 redirects") {
				t.Errorf("got %v", err)
			}
			if asked > 11 {
				t.Errorf("%d requests", asked)
			}
		})
	}
}

// A login that was taken out at the first hop must not be back at the second.
func TestLoginStaysWithItsHostOverSeveralRedirects(t *testing.T) {
	var logins []string
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		logins = append(logins, r.Header.Get("Authorization"))
		if r.URL.Path != "/end" {
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		}
	})
	sent := ""
	host := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if sent = r.Header.Get("Authorization"); sent == "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		http.Redirect(w, r, "http://"+other+"/start", http.StatusTemporaryRedirect)
	})
	_, _ = repo(t, host, "d/x", registry.Options{Credentials: login("u", "p")}).Manifest(t.Context(), "1")
	if sent == "" || len(logins) != 2 {
		t.Fatalf("login sent: %v, %d requests elsewhere", sent != "", len(logins))
	}
	for i, l := range logins {
		if l != "" {
			t.Errorf("hop %d carries a login", i+1)
		}
	}
}

func TestLocationsOutsideHTTPAreRefused(t *testing.T) {
	for _, location := range []string{"file:///etc/passwd", "gopher://127.0.0.1/x", "ftp://store.example/x"} {
		host := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		_, err := repo(t, host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
		scheme, _, _ := strings.Cut(location, ":")
		if err == nil || !strings.Contains(err.Error(), `"`+scheme+`" address`) {
			t.Errorf("%s: %v", location, err)
		}
	}
}
