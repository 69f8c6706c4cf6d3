// Package build gives each platform to the node that fits it best, lets the
// nodes build at the same time and collects one image per platform.
//
// It knows nothing of BuildKit: a node is a port with a handful of methods,
// satisfied by internal/buildkit and by the fakes of the tests. It moves no
// tag and makes no index; what it returns is content and where that content
// is. A platform that no node lists is refused before anything is built,
// unless the caller allows emulation, and a failed build names its node and
// platform and cancels the others.
//
// Read build.go first (the port and its results), then assign.go (which node
// builds what, a pure function) and run.go.
package build

import (
	"context"
	"io"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Node is one machine that can build images.
type Node interface {
	// Name is the node as the user knows it.
	Name() string
	// Endpoint is where it is, for messages; it holds no credential.
	Endpoint() string
	// Declared lists the platforms that the user gave this node. No request
	// is made.
	Declared() []oci.Platform
	// Platforms lists what the node itself reports, most native first. A node
	// that can be started is started. The error is an *UnreachableError when
	// the node does not answer.
	Platforms(ctx context.Context) ([]oci.Platform, error)
	// Build builds every platform of the request. On failure the images that
	// were already pushed are returned next to the error, so that nothing in a
	// registry goes unmentioned; their Manifest may lack its bytes.
	Build(ctx context.Context, req Request) ([]Image, error)
}

// Busy is a [Node] that can say how much it has to do. Of several nodes that fit
// a platform equally well, the one with the least gets it.
type Busy interface {
	// Busy counts the builds under way on the node, those of others too. The
	// error is an *UnreachableError when the node does not answer.
	Busy(ctx context.Context) (int, error)
}

// Request is what one node is asked to build.
type Request struct {
	// Platforms is empty for the node's own default platform.
	Platforms []oci.Platform
	// KeepGoing lets the other platforms finish when one fails.
	KeepGoing bool
}

// Image is the image of one platform and where its content is.
type Image struct {
	Platform oci.Platform
	// Node is the name of the node that built it.
	Node string
	// Manifest is the image manifest, its bytes as they were read back from
	// the registry, or from the node if that did not push. The descriptor has
	// the platform and the annotations that the node gave it.
	Manifest oci.Blob
	// Config is the digest of the image config.
	Config digest.Digest
	// Pushed: the node has pushed the manifest and all its blobs to every
	// repository.
	Pushed bool
	// Attestations are the attestation manifests of the image. They are in no
	// registry yet; their blobs open from Content.
	Attestations []oci.Blob
	// AttestationEntries describe the Attestations, one for one, the way
	// BuildKit lists them in an index (vnd.docker.reference.* annotations,
	// platform unknown/unknown).
	AttestationEntries []oci.Entry
	// Content opens the blobs that the node did not push: statements of
	// attestations, and everything if Pushed is false. Nil if there are none.
	Content Content
	// Relayed are blobs of the image and its attestations that have passed
	// through the client into the first repository; Content does not have them.
	Relayed []Relayed
	// Response is what the exporter answered (containerimage.digest,
	// buildx.build.ref, buildx.build.provenance, ...).
	Response map[string]string
	// Duration is how long the build took, wall clock.
	Duration time.Duration
	// Leftovers are manifests that the node pushed and that the result does
	// not use.
	Leftovers []digest.Digest
}

// Relayed is a blob that is in a registry before anything points at it.
type Relayed struct {
	Digest digest.Digest
	// Size in bytes.
	Size int64
	// Present: it was there already, and was not sent.
	Present bool
}

// Content opens blobs by descriptor. An error that is fs.ErrNotExist says
// that the blob is not here; the node has pushed it, or nobody has it.
type Content interface {
	OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error)
}

// Options are what Run needs to know. The zero value builds the first node's
// default platform.
type Options struct {
	// Platforms to build; repeated ones are built once.
	Platforms []oci.Platform
	// AllowEmulation builds a platform that no node lists on the first node
	// with the same operating system.
	AllowEmulation bool
	// KeepGoing lets the other platforms finish when one fails. Run still
	// fails.
	KeepGoing bool
	// Required are the platforms without which Run fails; the others are left
	// out with a warning when they fail or nobody builds them. Empty: all.
	Required []oci.Platform
	Report   report.Sink
}
