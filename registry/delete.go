package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/opencontainers/go-digest"
)

// DeleteManifest deletes a manifest by digest, and with it every tag that names
// it: that is what registries do. One DELETE. [Absent] errors when it is not
// there, [Unsupported] ones where deleting is switched off.
func (r *Repository) DeleteManifest(ctx context.Context, d digest.Digest) error {
	c := r.on(opDeleteManifest, d.String())
	if err := d.Validate(); err != nil {
		return r.failed(c, err)
	}
	return r.delete(ctx, c, d.String())
}

// DeleteTag deletes a tag and leaves what it names. One DELETE. Where a registry
// cannot do that the error is [Unsupported]; the manifest is never deleted in
// its place.
func (r *Repository) DeleteTag(ctx context.Context, tag string) error {
	c := r.on(opDeleteTag, tag)
	if _, isDigest := asDigest(tag); isDigest || tag == "" {
		return r.failed(c, errors.New("not a tag"))
	}
	return r.delete(ctx, c, tag)
}

func (r *Repository) delete(ctx context.Context, c call, identifier string) error {
	c.method, c.path, c.deleting = http.MethodDelete, "manifests/"+identifier, true
	resp, err := r.do(ctx, c, http.StatusAccepted, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return err
	}
	drop(resp)
	return nil
}
