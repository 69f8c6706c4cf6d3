package registry_test

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// "docker manifest --insecure" tries TLS first, too: a registry with a
// certificate of its own and one without TLS are reached by the same flag.
func TestAHostMayBeTriedInPlainHTTPWhenItDoesNotSpeakTLS(t *testing.T) {
	for name, opts := range map[string][]registrytest.Option{"plain": nil, "TLS": {registrytest.TLS()}} {
		r := registrytest.Distribution(t, opts...)
		r.Push("app", "1", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
		dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, r.Host)
		}
		read := func(o registry.Options) error {
			transport := &http.Transport{DialContext: dial}
			t.Cleanup(transport.CloseIdleConnections)
			o.Transport = transport
			name := ref.Reference{Host: "registry.example:5000", Repository: "app", Tag: "1"}
			_, err := registry.NewClient(o).Repository(name).Manifest(t.Context(), "1")
			return err
		}
		hosts := []string{"registry.example:5000"}
		if err := read(registry.Options{TryPlainHTTP: hosts, Insecure: hosts}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := read(registry.Options{}); err == nil {
			t.Errorf("%s: reached without being told to", name)
		}
	}
}
