package registry

import (
	"context"
	"net/http"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// writes bounds how often a write is sent whose outcome stays unknown.
const writes = 3

// PutManifest writes a manifest or index by digest, under no tag. One PUT, sent
// with the bytes as they are. The digest that the registry answers is compared.
// When the answer is lost, the manifest is read back by digest, and the PUT
// repeated only when it is not there. [ChildUnknown] errors when the registry
// misses something it points at.
func (r *Repository) PutManifest(ctx context.Context, b oci.Blob) error {
	identifier := b.Digest.String()
	c := r.on(opWriteManifest, identifier)
	if err := oci.Check(b.Descriptor, b.Bytes); err != nil {
		return r.failed(c, err)
	}
	r.scopes().write()
	for n := 1; ; n++ {
		err := r.putOnce(ctx, c, identifier, b)
		if err == nil || !unknownOutcome(err) || ctx.Err() != nil {
			return err
		}
		if _, there, asked := r.names(ctx, identifier, b); there {
			return nil
		} else if !asked || n == writes || n > 1 && Silent(err) {
			return err
		}
		if err := r.client.chain.Clock.Sleep(ctx, httpchain.Backoff(n)); err != nil {
			return r.failed(c, err)
		}
	}
}

// PutTag writes a manifest or index under a tag, by one PUT. When its answer is
// lost the tag is read: if it names b that is success, if it names anything else
// the error is an [*UnsettledError], and whether to write again is the caller's to
// say, who knows what the tag named before. [Immutable] errors when the registry
// refuses to move the tag. Once Status is that of a refusal (4xx), the tag is as
// it was; without an answer nobody knows.
func (r *Repository) PutTag(ctx context.Context, tag string, b oci.Blob) error {
	c := r.on(opWriteTag, tag)
	if err := oci.Check(b.Descriptor, b.Bytes); err != nil {
		return r.failed(c, err)
	}
	r.scopes().write()
	err := r.putOnce(ctx, c, tag, b)
	if err == nil || !unknownOutcome(err) || ctx.Err() != nil {
		return err
	}
	found, there, asked := r.names(ctx, tag, b)
	switch {
	case !asked:
		return err
	case there:
		return nil
	}
	return &UnsettledError{Found: found, Err: err}
}

// UnsettledError reports a tag PUT whose answer was lost, and a tag that names
// something else: the PUT may not have been carried out, may still be, or was, and
// another writer has been there since.
type UnsettledError struct {
	// Found is what the tag names, empty for nothing.
	Found digest.Digest
	Err   error
}

func (e *UnsettledError) Error() string { return e.Err.Error() }

func (e *UnsettledError) Unwrap() error { return e.Err }

func (r *Repository) putOnce(ctx context.Context, c call, identifier string, b oci.Blob) error {
	c.method, c.path, c.once = http.MethodPut, "manifests/"+identifier, true
	c.header = http.Header{"Content-Type": {b.MediaType}}
	c.body, c.size = of(b.Bytes), int64(len(b.Bytes))
	resp, err := r.do(ctx, c, http.StatusCreated, http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	if err != nil {
		return err
	}
	drop(resp)
	got := contentDigest(resp.Header)
	if got == "" || got == b.Digest {
		return nil
	}
	if err := oci.Check(oci.Descriptor{Digest: got}, b.Bytes); err != nil {
		return &Error{Op: c.op, Reference: c.object, Status: resp.StatusCode, Cause: &oci.MismatchError{
			What: "the digest that the registry answers", Want: b.Digest.String(), Got: got.String(),
		}}
	}
	return nil
}

// names reads what identifier names, empty for nothing, and reports whether that
// is b, and whether it could be asked.
func (r *Repository) names(ctx context.Context, identifier string, b oci.Blob) (found digest.Digest, there, asked bool) {
	got, err := r.Manifest(ctx, identifier)
	if err != nil {
		return "", false, Absent(err)
	}
	return got.Digest, oci.Check(oci.Descriptor{Digest: b.Digest}, got.Bytes) == nil, true
}
