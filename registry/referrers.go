package registry

import (
	"context"
	"errors"
	"net/http"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// maxReferrerPages bounds the pages of one list. Nobody signs an image this
// often.
const maxReferrerPages = 1000

// Referrers lists what refers to a manifest by its subject: signatures,
// attestations. One GET of the referrers API; where that is not there, which is
// remembered for the host, one GET of the fallback tag sha256-<hex>
// (distribution-spec, "Listing Referrers"). Nothing there is nil.
func (r *Repository) Referrers(ctx context.Context, d digest.Digest) ([]oci.Descriptor, error) {
	c := r.on(opListReferrers, d.String())
	if err := d.Validate(); err != nil {
		return nil, r.failed(c, err)
	}
	if !r.host.know().noReferrers {
		found, err := r.listReferrers(ctx, c, d)
		switch {
		case err != nil && Absent(err) && !noAPI(err):
			return nil, nil
		case !noAPI(err):
			return found, err
		}
		r.host.learn(func(k *knowledge) { k.noReferrers = true })
	}
	return r.taggedReferrers(ctx, d)
}

// HasReferrers reports whether the registry has the referrers API, by one GET
// unless that is known already. d may be any digest.
func (r *Repository) HasReferrers(ctx context.Context, d digest.Digest) (bool, error) {
	if r.host.know().noReferrers {
		return false, nil
	}
	_, err := r.listReferrers(ctx, r.on(opListReferrers, d.String()), d)
	if noAPI(err) {
		r.host.learn(func(k *knowledge) { k.noReferrers = true })
		return false, nil
	}
	if Absent(err) {
		return true, nil
	}
	return err == nil, err
}

// noAPI recognises a registry without the API. One that answers that it does not
// know the repository has it.
func noAPI(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Has("NAME_UNKNOWN") &&
		(e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed)
}

func (r *Repository) listReferrers(ctx context.Context, c call, d digest.Digest) ([]oci.Descriptor, error) {
	c.path = "referrers/" + d.String()
	c.header = http.Header{"Accept": {oci.MediaTypeIndex}}
	var out []oci.Descriptor
	for range maxReferrerPages {
		resp, err := r.do(ctx, c, http.StatusOK)
		if err != nil {
			return nil, err
		}
		found, err := readReferrers(resp)
		if err != nil {
			return nil, r.failed(c, err)
		}
		out = append(out, found...)
		next, err := r.next(resp)
		if err != nil {
			return nil, r.failed(c, err)
		}
		if next == nil {
			return out, nil
		}
		c.at = next
	}
	return nil, r.failed(c, errors.New("the list does not end"))
}

func readReferrers(resp *http.Response) ([]oci.Descriptor, error) {
	defer resp.Body.Close()
	b, err := readDocument(resp, oci.MaxManifestSize)
	if err != nil {
		return nil, err
	}
	return referrersOf(oci.NewBlob(oci.MediaTypeIndex, b))
}

func referrersOf(b oci.Blob) ([]oci.Descriptor, error) {
	idx, err := oci.ParseIndex(b)
	if err != nil {
		return nil, err
	}
	var out []oci.Descriptor
	for _, e := range idx.Manifests {
		out = append(out, e.Descriptor)
	}
	return out, nil
}

func (r *Repository) taggedReferrers(ctx context.Context, d digest.Digest) ([]oci.Descriptor, error) {
	tag := string(d.Algorithm()) + "-" + d.Encoded()
	b, err := r.readManifest(ctx, opListReferrers, tag)
	if Absent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := referrersOf(b)
	if err != nil {
		return nil, r.failed(r.on(opListReferrers, tag), err)
	}
	return found, nil
}
