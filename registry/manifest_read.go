package registry

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// accept is what every manifest request asks for, on one line: proxies keep
// only one of several lines, and registries report what is not asked for
// as missing or answer with a child.
var accept = strings.Join([]string{
	oci.MediaTypeIndex, oci.MediaTypeManifest, oci.MediaTypeDockerList, oci.MediaTypeDockerManifest, "*/*",
}, ", ")

func (r *Repository) manifestCall(op, identifier string) call {
	c := r.on(op, identifier)
	c.path = "manifests/" + identifier
	c.header = http.Header{"Accept": {accept}}
	return c
}

// Resolve returns what a tag or digest names: media type, digest and size, no
// more. One HEAD; a GET after it when the answer leaves something open, as a
// missing Docker-Content-Digest or a 404 that may be a proxy's. [Absent] errors
// when it is not there.
func (r *Repository) Resolve(ctx context.Context, identifier string) (oci.Descriptor, error) {
	c := r.manifestCall(opResolve, identifier)
	c.method = http.MethodHead
	resp, err := r.send(ctx, c)
	if err != nil {
		return oci.Descriptor{}, err
	}
	drop(resp)
	switch {
	case resp.StatusCode == http.StatusOK:
		if d, ok := described(resp); ok {
			return r.checked(c, identifier, d)
		}
	case resp.StatusCode == http.StatusNotFound && fromRegistry(resp.Header):
		return oci.Descriptor{}, r.absent(c, "MANIFEST_UNKNOWN", "manifest unknown")
	case resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed:
		return oci.Descriptor{}, r.refused(c, resp)
	}
	b, err := r.readManifest(ctx, opResolve, identifier)
	return b.Descriptor, err
}

func (r *Repository) absent(c call, code, message string) *Error {
	return &Error{Op: c.op, Reference: c.object, Status: http.StatusNotFound, Codes: []Code{{Code: code, Message: message}}}
}

// described reads a descriptor off the headers of an answer; ok is false when
// one is missing or says nothing.
func described(resp *http.Response) (oci.Descriptor, bool) {
	d := oci.Descriptor{MediaType: contentType(resp.Header), Digest: contentDigest(resp.Header), Size: resp.ContentLength}
	return d, oci.IsManifest(d.MediaType) && d.Digest != "" && d.Digest.Validate() == nil && d.Size > 0
}

// checked refuses a descriptor with another digest than was asked for.
func (r *Repository) checked(c call, identifier string, d oci.Descriptor) (oci.Descriptor, error) {
	if asked, ok := asDigest(identifier); ok && asked.Algorithm() == d.Digest.Algorithm() && asked != d.Digest {
		return oci.Descriptor{}, r.failed(c, &oci.MismatchError{What: "digest", Want: asked.String(), Got: d.Digest.String()})
	}
	return d, nil
}

func asDigest(identifier string) (digest.Digest, bool) {
	d := digest.Digest(identifier)
	return d, strings.Contains(identifier, ":") && d.Validate() == nil
}

func contentType(h http.Header) string {
	mediaType, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mediaType
}

func contentDigest(h http.Header) digest.Digest {
	return digest.Digest(h.Get("Docker-Content-Digest"))
}

// Manifest reads the manifest or index that a tag or digest names. One GET, and
// another one when its body breaks off. The
// digest is computed from the bytes and compared with the one asked for and the
// one in the header; the media type is that of the header and of the body, which
// must not contradict each other. [Absent] errors when it is not there,
// *oci.MismatchError and *oci.SyntaxError for content that is refused.
func (r *Repository) Manifest(ctx context.Context, identifier string) (oci.Blob, error) {
	return r.readManifest(ctx, opReadManifest, identifier)
}

// FetchManifest reads a manifest or index by its descriptor, and checks digest,
// size (unless 0) and media type (unless empty). One GET. Errors as
// [Repository.Manifest].
func (r *Repository) FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error) {
	b, err := r.readManifest(ctx, opReadManifest, d.Digest.String())
	if err != nil {
		return oci.Blob{}, err
	}
	c := r.on(opReadManifest, d.Digest.String())
	if err := oci.Check(d, b.Bytes); err != nil {
		return oci.Blob{}, r.failed(c, err)
	}
	if d.MediaType != "" && d.MediaType != b.MediaType {
		return oci.Blob{}, r.failed(c, &oci.MismatchError{What: "media type", Want: d.MediaType, Got: b.MediaType})
	}
	return b, nil
}

// reads bounds how often a manifest is asked for whose body breaks off.
const reads = 3

func (r *Repository) readManifest(ctx context.Context, op, identifier string) (oci.Blob, error) {
	for n := 1; ; n++ {
		blob, brokenOff, err := r.readOnce(ctx, op, identifier)
		if !brokenOff || n == reads || ctx.Err() != nil {
			return blob, err
		}
		if err := r.client.chain.Clock.Sleep(ctx, httpchain.Backoff(n)); err != nil {
			return oci.Blob{}, r.failed(r.manifestCall(op, identifier), err)
		}
	}
}

// readOnce sends one GET, which the chain repeats until there is an answer.
// brokenOff says that its body did not come to its end.
func (r *Repository) readOnce(ctx context.Context, op, identifier string) (_ oci.Blob, brokenOff bool, _ error) {
	c := r.manifestCall(op, identifier)
	resp, err := r.do(ctx, c, http.StatusOK)
	if err != nil {
		return oci.Blob{}, false, err
	}
	defer resp.Body.Close()
	b, err := readDocument(resp, oci.MaxManifestSize)
	if err != nil {
		return oci.Blob{}, httpchain.Broken(err), r.failed(c, err)
	}
	blob, err := identify(identifier, resp.Header, b)
	if err != nil {
		return oci.Blob{}, false, r.failed(c, err)
	}
	return blob, false, nil
}

// readDocument reads a whole body of at most limit bytes, decoded if a server
// compresses although it was asked not to.
func readDocument(resp *http.Response, limit int64) ([]byte, error) {
	body, err := decoded(resp)
	if err != nil {
		return nil, err
	}
	b, err := io.ReadAll(io.LimitReader(body, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(b)) > limit {
		return nil, &oci.SyntaxError{Reason: fmt.Sprintf("more than %d bytes, the limit", limit)}
	}
	return b, nil
}

func decoded(resp *http.Response) (io.Reader, error) {
	switch encoding := strings.ToLower(resp.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
		return resp.Body, nil
	case "gzip", "x-gzip":
		return gzip.NewReader(resp.Body)
	default:
		return nil, fmt.Errorf("answer is encoded as %q, which was not asked for", encoding)
	}
}

// identify makes a blob of bytes that came for identifier under these headers.
func identify(identifier string, h http.Header, b []byte) (oci.Blob, error) {
	mediaType := contentType(h)
	if !oci.IsManifest(mediaType) {
		mediaType = "" // application/json and text/plain say nothing
	}
	mediaType, err := oci.DetectMediaType(mediaType, b)
	if err != nil {
		return oci.Blob{}, err
	}
	blob := oci.NewBlob(mediaType, b)
	if told := contentDigest(h); told != "" {
		blob.Digest = told
	}
	if asked, ok := asDigest(identifier); ok {
		if err := oci.Check(blob.Descriptor, b); err != nil {
			return oci.Blob{}, err
		}
		blob.Digest = asked
	}
	return blob, oci.Check(blob.Descriptor, b)
}
