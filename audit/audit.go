// Package audit walks what a reference reaches and states what is wrong there.
//
// [Verify] reads the index and every manifest below it, compares each with its
// descriptor, reads the config of every image for its platform, and asks for
// every blob once. Each fault becomes a [Finding], all of them in one run.
// [Inspect] reads the same manifests and describes them as a [Tree].
//
// "Is not there" is a finding; "could not ask" (no access, too many requests,
// time-out) is an [*Error] that ends the audit, since nothing can be said then.
// [Options.Absent] tells the two apart. Nothing is written anywhere.
//
// Read audit.go first, then load.go (the manifests), blobs.go (configs and
// blobs), check.go (what is a fault, and why) and tree.go.
package audit

import (
	"context"
	"fmt"
	"io"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// Content is where the image is kept. An error that is an [*oci.MismatchError]
// or an [*oci.SyntaxError] is a fault of the content, not of the place.
type Content interface {
	// FetchManifest reads a manifest or index by descriptor.
	FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error)
	// OpenBlob reads a config.
	OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error)
	// StatBlob reports whether a blob is there, with the size of d.
	StatBlob(ctx context.Context, d oci.Descriptor) (bool, error)
}

// Options of [Verify]. The zero value checks that an index is whole.
type Options struct {
	// Platforms that must each be met by an image. With exactly one, an image
	// without an index will do.
	Platforms []oci.Platform
	// Exact allows no image besides those that meet one of Platforms.
	Exact bool
	// Absent reports whether an error of the content says that something is not
	// there. Nil: no error does, and every error ends the audit.
	Absent func(error) bool
	// Concurrency bounds requests under way; 8 when zero.
	Concurrency int
	// Report gets a report.ReadBack event for each manifest and a report.Blob
	// event for each blob.
	Report report.Sink
}

const defaultConcurrency = 8

// Severity says what a finding means for [Verify].
type Severity string

// The severities.
const (
	// Fault: the image is not whole, or not what it says or should be.
	Fault Severity = "fault"
	// Note: worth knowing, nothing is broken by it.
	Note Severity = "note"
)

// Code names a kind of finding. Codes are stable.
type Code string

// The codes.
const (
	ChildMissing       Code = "child-missing"
	BlobMissing        Code = "blob-missing"
	SizeMismatch       Code = "size-mismatch"
	DigestMismatch     Code = "digest-mismatch"
	MediaTypeMismatch  Code = "media-type-mismatch"
	DataMismatch       Code = "data-mismatch"
	PlatformMismatch   Code = "platform-mismatch"
	PlatformMissing    Code = "platform-missing"
	DuplicatePlatform  Code = "duplicate-platform"
	PlatformAbsent     Code = "platform-absent"
	PlatformUnexpected Code = "platform-unexpected"
	NotAnIndex         Code = "not-an-index"
	NestedIndex        Code = "nested-index"
	EmptyIndex         Code = "empty-index"
	AttestationUnbound Code = "attestation-unbound"
	Syntax             Code = "syntax"
	MixedTypes         Code = "mixed-types"
)

// Finding is one thing that is wrong or worth knowing.
type Finding struct {
	Code     Code     `json:"code"`
	Severity Severity `json:"severity"`
	// Digest of the content that the finding is about; empty for a platform that
	// is not there.
	Digest digest.Digest `json:"digest,omitempty"`
	// Platform of the image that is affected, as os/arch[/variant].
	Platform string `json:"platform,omitempty"`
	// Path are the manifests above the content, the root first.
	Path []digest.Digest `json:"path,omitempty"`
	// Text says it in words.
	Text string `json:"text"`
}

func (f Finding) String() string {
	s := string(f.Code) + ": "
	if f.Platform != "" {
		s += f.Platform + ": "
	}
	if f.Digest != "" {
		s += string(f.Digest) + ": "
	}
	return s + f.Text
}

// Result of [Verify].
type Result struct {
	Root oci.Descriptor `json:"root"`
	// Tree is what was found, as [Inspect] gives it.
	Tree Tree `json:"tree"`
	// Findings in the order of the tree, then those about platforms.
	Findings []Finding `json:"findings"`
}

// Faults are the findings that are more than notes.
func (r Result) Faults() []Finding {
	var out []Finding
	for _, f := range r.Findings {
		if f.Severity == Fault {
			out = append(out, f)
		}
	}
	return out
}

// Error reports content that could not be asked for.
type Error struct {
	Digest digest.Digest
	Err    error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %v", e.Digest, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Verify checks root and everything below it. Requests: one FetchManifest for
// each manifest, one OpenBlob for each config of an image, one StatBlob for each
// other blob; each digest once. The error is an [*Error]; faults are no error.
func Verify(ctx context.Context, c Content, root oci.Blob, o Options) (Result, error) {
	l := newLoader(c, o)
	n, err := l.load(ctx, root)
	if err != nil {
		return Result{}, err
	}
	if err := l.blobs(ctx, n, everything); err != nil {
		return Result{}, err
	}
	return Result{Root: root.Descriptor, Tree: tree(n), Findings: check(n, o)}, nil
}

// Inspect describes root and everything below it. Requests: one FetchManifest
// for each manifest, one OpenBlob for each config of an image whose descriptor
// has no platform. A manifest that is not there ends it with an [*Error];
// [InspectPartial] goes on.
func Inspect(ctx context.Context, c Content, root oci.Blob) (Tree, error) {
	return InspectPartial(ctx, c, root, nil)
}

// InspectPartial is [Inspect] that marks as missing what absent says is not
// there.
func InspectPartial(ctx context.Context, c Content, root oci.Blob, absent func(error) bool) (Tree, error) {
	l := newLoader(c, Options{Absent: absent})
	n, err := l.load(ctx, root)
	if err != nil {
		return Tree{}, err
	}
	if err := l.blobs(ctx, n, unlabelledConfigs); err != nil {
		return Tree{}, err
	}
	return tree(n), nil
}
