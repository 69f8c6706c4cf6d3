package registry_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

func TestMirrorIsReadFirstAndPassedOverWhenItFails(t *testing.T) {
	origin, mirror := registrytest.Distribution(t), registrytest.Distribution(t)
	img := image(t)
	origin.Push("d/x", "1", img)
	mirror.Push("cache/d/x", "1", img)
	c := registry.NewClient(registry.Options{
		Mirrors: map[string][]string{origin.Host: {mirror.Host + "/cache"}}, Sleep: (&naps{}).sleep,
	})
	name, err := ref.Parse(origin.Reference("d/x", "1"))
	noError(t, err)
	read := func() {
		t.Helper()
		s := c.Source(name)
		b, err := s.Manifest(t.Context(), "1")
		noError(t, err)
		rc, err := s.OpenBlob(t.Context(), img.Blobs[1].Descriptor)
		noError(t, err)
		_, err = io.Copy(io.Discard, rc)
		noError(t, err)
		_ = rc.Close()
		if b.Digest != img.Digest() || s.Name() != origin.Host+"/d/x" {
			t.Errorf("%s of %s", b.Digest, s.Name())
		}
	}
	read()
	if n := len(origin.Log()); n != 0 {
		t.Errorf("the host itself was asked %d times", n)
	}
	mirror.Fault(registrytest.Fault{Status: 403, Times: registrytest.Always})
	read()
	if n := len(origin.Log()); n != 2 {
		t.Errorf("the host itself was asked %d times, want 2", n)
	}
}

// TestMirrorCannotGiveOtherContent: what a mirror says is checked by digest.
func TestMirrorCannotGiveOtherContent(t *testing.T) {
	origin, mirror := registrytest.Distribution(t), registrytest.Distribution(t)
	img := image(t)
	origin.Push("d/x", "1", img)
	mirror.Push("d/x", "1", img)
	mirror.Use(registrytest.Rewriting("GET", "", registrytest.CorruptByte(30)))
	c := registry.NewClient(registry.Options{Mirrors: map[string][]string{origin.Host: {mirror.Host}}, Sleep: (&naps{}).sleep})
	name, err := ref.Parse(origin.Reference("d/x", "1"))
	noError(t, err)
	b, err := c.Source(name).FetchManifest(t.Context(), img.Root.Descriptor)
	noError(t, err)
	if string(b.Bytes) != string(img.Root.Bytes) {
		t.Error("other bytes")
	}
}

func TestProxyIsUsed(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("d/x", "1", image(t))
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		asked = append(asked, q.URL.Host)
		there := q.Clone(q.Context())
		there.URL.Host, there.RequestURI = r.Host, ""
		resp, err := http.DefaultTransport.RoundTrip(there)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	t.Cleanup(proxy.Close)
	at, err := url.Parse(proxy.URL)
	noError(t, err)
	o := registry.Options{PlainHTTP: []string{"far.example:5000"}, Transport: &http.Transport{Proxy: http.ProxyURL(at)}}
	_, err = repo(t, "far.example:5000", "d/x", o).Manifest(t.Context(), "1")
	noError(t, err)
	if len(asked) != 1 || asked[0] != "far.example:5000" {
		t.Errorf("the proxy was asked for %v", asked)
	}
}
