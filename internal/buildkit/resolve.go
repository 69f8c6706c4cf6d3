package buildkit

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/opencontainers/go-digest"
)

// ExportError reports an answer of a node's exporter that this package does
// not act on.
type ExportError struct {
	// Digest is what was exported, empty if even that is unknown.
	Digest digest.Digest
	Reason string
}

func (e *ExportError) Error() string {
	if e.Digest == "" {
		return "exported image: " + e.Reason
	}
	return fmt.Sprintf("exported image %s: %s", e.Digest, e.Reason)
}

// exported reads the descriptor of what a solve exported: a manifest, or an
// index where attestations or the frontend ask for one.
func exported(resp *client.SolveResponse) (oci.Descriptor, error) {
	raw, ok := resp.ExporterResponse[exptypes.ExporterImageDescriptorKey]
	if !ok {
		return oci.Descriptor{}, &ExportError{Reason: "the node did not say what it exported; BuildKit v0.10 or newer is needed"}
	}
	b, err := base64.StdEncoding.DecodeString(raw)
	if err != nil {
		return oci.Descriptor{}, &ExportError{Reason: "descriptor is not base64"}
	}
	var d oci.Descriptor
	if err := json.Unmarshal(b, &d); err != nil {
		return oci.Descriptor{}, &ExportError{Reason: "descriptor: " + err.Error()}
	}
	if err := d.Digest.Validate(); err != nil {
		return oci.Descriptor{}, &ExportError{Reason: "descriptor: " + err.Error()}
	}
	return d, nil
}

// repositories returns the distinct repositories of tags, in their order.
func repositories(tags []string) ([]ref.Reference, error) {
	seen := map[string]bool{}
	var out []ref.Reference
	for _, tag := range tags {
		r, err := ref.Parse(tag)
		if err != nil {
			return nil, err
		}
		if !seen[r.Name()] {
			seen[r.Name()] = true
			out = append(out, r.Repo())
		}
	}
	return out, nil
}

// Registry is where the images of a build go.
type Registry interface {
	// FetchPushed reads the manifest d, which was just pushed, from a repository,
	// its bytes checked against digest and size.
	FetchPushed(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error)
	// BeginBlob asks a repository for a blob. A nil function says that it is
	// there. Else the function sends the bytes, which come once; it must be
	// called, and a body that ends in an error gives the upload up.
	BeginBlob(ctx context.Context, repo ref.Reference, d oci.Descriptor) (send func(context.Context, io.Reader) error, err error)
}

// readBack reads a pushed manifest from every repository it was pushed to.
func readBack(ctx context.Context, reg Registry, repos []ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	var b oci.Blob
	for _, repo := range repos {
		got, err := reg.FetchPushed(ctx, repo, d)
		if err != nil {
			return oci.Blob{}, err
		}
		if err := oci.Check(d, got.Bytes); err != nil {
			return oci.Blob{}, fmt.Errorf("%s: %w", repo.WithDigest(d.Digest), err)
		}
		b = oci.Blob{Descriptor: d, Bytes: got.Bytes}
	}
	if len(repos) == 0 {
		return b, errors.New("no repository to read back from")
	}
	return b, nil
}
