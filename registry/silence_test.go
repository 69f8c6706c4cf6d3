package registry_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
)

// TestWritesThatGoUnansweredAreRepeatedOnce: each of them has cost the idle time,
// though everything else is answered.
func TestWritesThatGoUnansweredAreRepeatedOnce(t *testing.T) {
	const host = "reg.example"
	puts := 0
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp := &http.Response{StatusCode: http.StatusNotFound, Header: http.Header{}, Request: req, Body: http.NoBody}
		switch req.Method {
		case http.MethodPut:
			puts++
			_, _ = io.Copy(io.Discard, req.Body)
			return nil, &registry.IdleError{Host: host, After: time.Second, During: "waiting for an answer"}
		case http.MethodPost:
			resp.StatusCode = http.StatusAccepted
			resp.Header.Set("Location", "https://"+host+"/v2/d/x/blobs/uploads/1")
		case http.MethodGet:
			resp.Body = io.NopCloser(strings.NewReader(`{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`))
		default:
			resp.Header.Set("Docker-Distribution-Api-Version", "registry/2.0")
		}
		return resp, nil
	})
	r := repo(t, host, "d/x", registry.Options{Transport: transport, Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})
	b := oci.NewBlob(oci.MediaTypeManifest, []byte("{}"))
	open := func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
	for name, write := range map[string]func() error{
		"manifest": func() error { return r.PutManifest(t.Context(), b) },
		"blob": func() error {
			_, err := r.CopyBlob(t.Context(), b.Descriptor, nil, open)
			return err
		},
	} {
		puts = 0
		var idle *registry.IdleError
		if err := write(); !errors.As(err, &idle) || !registry.Silent(err) || puts != 2 {
			t.Errorf("%s: %d PUTs, %v", name, puts, err)
		}
	}
}
