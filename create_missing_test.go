package manifold_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// With IgnoreMissing only a 404 that means that the manifest or the
// repository is not there leaves a source out. Everything else stops the
// command, and nothing is written.
func TestOnlyTrueAbsenceIsIgnored(t *testing.T) {
	json := http.Header{"Content-Type": {"application/json"}}
	code := func(c string) string { return `{"errors":[{"code":"` + c + `","message":"m"}]}` }
	html := "<html><title>Not here</title></html>"
	for name, c := range map[string]struct {
		fault  registrytest.Fault
		absent bool
	}{
		"404 manifest unknown":  {registrytest.Fault{Status: 404, Header: json, Body: code("MANIFEST_UNKNOWN")}, true},
		"404 name unknown":      {registrytest.Fault{Status: 404, Header: json, Body: code("NAME_UNKNOWN")}, true},
		"404 without a body":    {registrytest.Fault{Status: 404}, false},
		"404 of a proxy":        {registrytest.Fault{Status: 404, Header: http.Header{"Content-Type": {"text/html"}}, Body: html}, false},
		"404 of something else": {registrytest.Fault{Status: 404, Header: json, Body: code("UNSUPPORTED")}, false},
		"401":                   {registrytest.Fault{Status: 401, Header: json, Body: code("UNAUTHORIZED")}, false},
		"403":                   {registrytest.Fault{Status: 403, Header: json, Body: code("DENIED")}, false},
		"403 manifest unknown":  {registrytest.Fault{Status: 403, Header: json, Body: code("MANIFEST_UNKNOWN")}, false},
		"429":                   {registrytest.Fault{Status: 429, Header: json, Body: code("TOOMANYREQUESTS")}, false},
		"500":                   {registrytest.Fault{Status: 500}, false},
		"503":                   {registrytest.Fault{Status: 503}, false},
		"500 manifest unknown":  {registrytest.Fault{Status: 500, Header: json, Body: code("MANIFEST_UNKNOWN")}, false},
		"200 HTML":              {registrytest.Fault{Status: 200, Header: http.Header{"Content-Type": {"text/html"}}, Body: html}, false},
		"200 nothing":           {registrytest.Fault{Status: 200}, false},
		"no answer":             {registrytest.Fault{Cut: registrytest.CutBefore}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			r.Push("src", "amd64", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
			c.fault.Method, c.fault.Path, c.fault.Times = "", "/manifests/arm64$", registrytest.Always
			r.Fault(c.fault)
			m := manifold.New(manifold.Options{Registry: registry.Options{Sleep: func(context.Context, time.Duration) error { return nil }}})
			defer m.Close()
			made, err := m.Create(t.Context(), manifold.CreateOptions{
				Sources:       []ref.Location{location(t, r.Reference("src", "amd64")), location(t, r.Reference("src", "arm64"))},
				Targets:       []ref.Reference{reference(t, r.Reference("app", "1"))},
				IgnoreMissing: true,
			})
			if (err == nil) != c.absent || (len(made.Missing) == 1) != c.absent {
				t.Errorf("%v, missing %v", err, made.Missing)
			}
			if writes := len(r.Tags("app")); (writes > 0) != c.absent {
				t.Errorf("%d tags written", writes)
			}
		})
	}
}

// A request that nobody answers ends with the caller's patience, and leaves
// nothing out.
func TestSilenceIsNotAbsence(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("src", "amd64", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
	silent := r.Fault(registrytest.Fault{Path: "/manifests/arm64$", Hold: make(chan struct{}), Times: registrytest.Always})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-silent.Reached(); cancel() }()
	m := manifold.New(manifold.Options{})
	defer m.Close()
	made, err := m.Create(ctx, manifold.CreateOptions{
		Sources:       []ref.Location{location(t, r.Reference("src", "amd64")), location(t, r.Reference("src", "arm64"))},
		Targets:       []ref.Reference{reference(t, r.Reference("app", "1"))},
		IgnoreMissing: true,
	})
	if err == nil || len(made.Missing) > 0 || len(r.Tags("app")) > 0 {
		t.Errorf("%v, missing %v", err, made.Missing)
	}
}
