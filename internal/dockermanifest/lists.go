package dockermanifest

import (
	"context"
	"errors"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Registries is what the verbs need of registries. Errors for content that is
// not there are [registry.Absent].
type Registries interface {
	// Resolve reads what a tag or digest names.
	Resolve(ctx context.Context, r ref.Reference) (oci.Blob, error)
	// FetchManifest reads a manifest by digest, checked; size and media type
	// are checked where d has them.
	FetchManifest(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error)
	// Platform reads the platform of an image from its config.
	Platform(ctx context.Context, repo ref.Reference, m oci.Manifest) (oci.Platform, error)
	// Publish makes target name the root of c, whole. It returns the digests of
	// the manifests that it has put, on failure too.
	Publish(ctx context.Context, c publish.Content, target ref.Reference) ([]digest.Digest, error)
}

// Lists carries out the verbs. Names are as the user wrote them.
type Lists struct {
	Store      Store
	Registries Registries
	// Report gets warnings, and a report.ReadBack for each child that was read
	// from the target before the push.
	Report report.Sink
}

// parse reads a name, with Docker's message for what is none.
func parse(name string) (ref.Reference, error) {
	r, err := ref.Parse(name)
	var bad *ref.Error
	if errors.As(err, &bad) {
		return r, &NameError{Reason: dockerReason(bad), Err: err}
	}
	return r.OrLatest(), err
}

// dockerReason begins as Docker's does, and says more where there is more to
// say.
func dockerReason(e *ref.Error) string {
	const docker = "invalid reference format"
	switch {
	case e.Name == "":
		return docker
	case strings.HasPrefix(e.Reason, docker):
		return e.Reason
	}
	return docker + ": " + e.Reason
}

// resolve reads what a source names; Docker's message says that it is absent.
func (l *Lists) resolve(ctx context.Context, r ref.Reference) (oci.Blob, error) {
	b, err := l.Registries.Resolve(ctx, r)
	if registry.Absent(err) {
		return b, &AbsentError{Name: r.String(), Err: err}
	}
	return b, err
}

// child reads a manifest that parent lists.
func (l *Lists) child(ctx context.Context, parent ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	b, err := l.Registries.FetchManifest(ctx, parent, d)
	if registry.Absent(err) {
		return b, &AbsentError{Name: parent.WithDigest(d.Digest).String(), Parent: parent.String(), Err: err}
	}
	return b, err
}

// platform reads the platform of an image from its config. Docker looks into
// every config, whatever its type; one that has no platform to read gives none.
func (l *Lists) platform(ctx context.Context, repo ref.Reference, b oci.Blob) (oci.Platform, error) {
	m, err := oci.ParseManifest(b)
	if err != nil {
		return oci.Platform{}, err
	}
	p, err := l.Registries.Platform(ctx, repo, m)
	var syntax *oci.SyntaxError
	switch {
	case registry.Absent(err):
		return p, &AbsentError{Name: repo.WithDigest(m.Config.Digest).String(), Parent: repo.WithDigest(b.Digest).String(), Err: err}
	case !oci.IsImageConfig(m.Config.MediaType) && errors.As(err, &syntax):
		return oci.Platform{}, nil
	}
	return p, err
}
