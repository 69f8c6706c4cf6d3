package layout

import (
	"context"
	"fmt"
	"io"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// FetchManifest reads a manifest or index by descriptor, checked against digest
// and size. Without a media type in d, the body's is taken. Errors:
// [*MissingError]; [*Error] around an [*oci.MismatchError] or, where the media
// type had to be read, an [*oci.SyntaxError].
func (l *Layout) FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error) {
	f, err := l.open(ctx, d)
	if err != nil {
		return oci.Blob{}, err
	}
	defer f.Close()
	if f.size > oci.MaxManifestSize {
		return oci.Blob{}, l.errorf("%s: %d bytes, the limit for a manifest is %d", d.Digest, f.size, int64(oci.MaxManifestSize))
	}
	b, err := io.ReadAll(io.LimitReader(f, oci.MaxManifestSize))
	if err == nil {
		err = oci.Check(d, b)
	}
	mediaType := d.MediaType
	if err == nil && mediaType == "" {
		mediaType, err = oci.DetectMediaType("", b)
	}
	if err != nil {
		return oci.Blob{}, l.about(d, err)
	}
	return oci.Blob{Bytes: b, Descriptor: oci.Descriptor{MediaType: mediaType, Digest: d.Digest, Size: int64(len(b))}}, nil
}

// OpenBlob opens content by descriptor. The last read fails with an
// [*oci.MismatchError] instead of io.EOF when the bytes do not have the digest;
// a file of another size is refused at once. Errors: [*MissingError], [*Error].
func (l *Layout) OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	f, err := l.open(ctx, d)
	if err != nil {
		return nil, err
	}
	if err := sizeFault(d, f.size); err != nil {
		_ = f.Close()
		return nil, l.about(d, err)
	}
	return &verifier{layout: l, want: d, file: f, digester: d.Digest.Algorithm().Digester()}, nil
}

// StatBlob reports whether the layout holds content. Content of another size
// than d's is there, with an error that is an [*oci.MismatchError].
func (l *Layout) StatBlob(ctx context.Context, d oci.Descriptor) (bool, error) {
	f, err := l.open(ctx, d)
	if Absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := sizeFault(d, f.size); err != nil {
		return true, l.about(d, err)
	}
	return true, nil
}

func (l *Layout) open(ctx context.Context, d oci.Descriptor) (file, error) {
	if err := ctx.Err(); err != nil {
		return file{}, err
	}
	if err := d.Digest.Validate(); err != nil {
		return file{}, l.errorf("digest %q: %w", d.Digest, err)
	}
	f, err := l.store.open(ocispec.ImageBlobsDir + "/" + string(d.Digest.Algorithm()) + "/" + d.Digest.Encoded())
	if isNotExist(err) {
		return file{}, &MissingError{Path: l.path, Digest: d.Digest}
	}
	if err != nil {
		return file{}, l.about(d, reason(err))
	}
	return f, nil
}

func (l *Layout) about(d oci.Descriptor, err error) error {
	return &Error{Path: l.path, Err: fmt.Errorf("%s: %w", d.Digest, err)}
}

func sizeFault(d oci.Descriptor, size int64) error {
	if d.Size == 0 || d.Size == size {
		return nil
	}
	return &oci.MismatchError{What: "size", Want: fmt.Sprint(d.Size), Got: fmt.Sprint(size)}
}

// verifier hands bytes on and compares their digest at the end.
type verifier struct {
	file
	layout   *Layout
	want     oci.Descriptor
	digester digest.Digester
}

func (v *verifier) Read(p []byte) (int, error) {
	n, err := v.file.Read(p)
	_, _ = v.digester.Hash().Write(p[:n]) // a hash never fails
	switch {
	case err == nil:
		return n, nil
	case err != io.EOF:
		return n, v.layout.about(v.want, reason(err))
	}
	if got := v.digester.Digest(); got != v.want.Digest {
		return n, v.layout.about(v.want, &oci.MismatchError{What: "digest", Want: v.want.Digest.String(), Got: got.String()})
	}
	return n, io.EOF
}
