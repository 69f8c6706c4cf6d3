package registrytest

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/manifold-oci/manifold/oci"
)

// Push stores content and everything below it in a repository and returns the
// root's digest. The root is put by tag, or by digest when tag is empty; what it
// lists is put by digest.
func (r *Registry) Push(repo, tag string, c Content) digest.Digest {
	r.t.Helper()
	for _, b := range c.AllBlobs() {
		r.PushBlob(repo, b)
	}
	manifests := c.Manifests()
	for _, m := range manifests[:len(manifests)-1] {
		r.PushManifest(repo, m.Digest.String(), m)
	}
	if tag == "" {
		tag = c.Digest().String()
	}
	r.PushManifest(repo, tag, c.Root)
	return c.Digest()
}

// PushBlob stores a blob unless the repository has it.
func (r *Registry) PushBlob(repo string, b oci.Blob) {
	r.t.Helper()
	if r.HasBlob(repo, b.Digest) {
		return
	}
	a := r.ask(http.MethodPost, "/v2/"+repo+"/blobs/uploads/", "", nil)
	r.want(http.StatusAccepted, a, "start of an upload")
	to, err := url.Parse(a.Header.Get("Location"))
	if err != nil {
		r.t.Fatal(err)
	}
	q := to.Query()
	q.Set("digest", b.Digest.String())
	a = r.ask(http.MethodPut, to.Path+"?"+q.Encode(), "application/octet-stream", b.Bytes)
	r.want(http.StatusCreated, a, "blob "+b.Digest.String())
}

// PushManifest stores a manifest under a tag or digest, as it is.
func (r *Registry) PushManifest(repo, reference string, b oci.Blob) {
	r.t.Helper()
	a := r.ask(http.MethodPut, "/v2/"+repo+"/manifests/"+reference, b.MediaType, b.Bytes)
	r.want(http.StatusCreated, a, "manifest "+reference)
	r.noteManifest(repo, b.Digest)
}

// acceptAll lets every kind of manifest through.
const acceptAll = oci.MediaTypeIndex + ", " + oci.MediaTypeManifest + ", " +
	oci.MediaTypeDockerList + ", " + oci.MediaTypeDockerManifest + ", */*"

// ask speaks to the registry itself, past the proxy.
func (r *Registry) ask(method, pathAndQuery, contentType string, body []byte) *Answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.ctx(), method, r.backend+pathAndQuery, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", acceptAll)
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: b}
}

func (r *Registry) want(status int, a *Answer, what string) {
	r.t.Helper()
	if a.Status != status {
		r.t.Fatalf("%s: %s: status %d, want %d: %s", r.Kind, what, a.Status, status, strings.TrimSpace(string(a.Body)))
	}
}

func readCloser(b []byte) io.ReadCloser { return io.NopCloser(bytes.NewReader(b)) }
