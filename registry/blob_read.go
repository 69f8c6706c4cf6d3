package registry

import (
	"context"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/oci"
)

// A download that breaks off is taken up again. It is given up after so many
// interruptions without this much progress between them.
const (
	resumes        = 5
	resumeProgress = 1 << 20
)

// checkedTwice is the size in bytes from which a blob that feeds an upload is
// hashed by the registry that receives it, and not here, too: hashing is most of
// what such a copy costs.
const checkedTwice = 16 << 20

// OpenBlob opens a blob for reading. One GET; when the body breaks off, one more
// with a Range for what is missing. Instead of io.EOF, Read returns an error
// when the bytes are not those of d: [*Error] with an *oci.MismatchError. Of a
// large blob that feeds a [Repository.CopyBlob], only the size: that finds out
// otherwise. [Absent] errors when it is not there.
func (r *Repository) OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	c := r.on(opReadBlob, d.Digest.String())
	c.path = "blobs/" + d.Digest.String()
	if err := d.Digest.Validate(); err != nil {
		return nil, r.failed(c, err)
	}
	resp, err := r.do(ctx, c, http.StatusOK)
	if err != nil {
		return nil, err
	}
	if got := resp.ContentLength; got >= 0 && d.Size > 0 && got != d.Size {
		drop(resp)
		return nil, r.failed(c, sizeMismatch(d.Size, got))
	}
	b := &blobReader{ctx: ctx, repo: r, call: c, want: d, body: resp.Body}
	if !httpchain.IsFeeding(ctx) || d.Size < checkedTwice {
		b.hash = d.Digest.Algorithm().Hash()
	}
	return b, nil
}

func sizeMismatch(want, got int64) error {
	return &oci.MismatchError{What: "size", Want: strconv.FormatInt(want, 10), Got: strconv.FormatInt(got, 10)}
}

// blobReader is a download that checks itself and survives interruptions. Like
// http.Request it holds the context that its further requests are made under.
type blobReader struct {
	ctx  context.Context
	repo *Repository
	call call
	want oci.Descriptor
	body io.ReadCloser
	hash hash.Hash // nil when somebody else checks

	read    int64
	resumed int   // since the last progress
	mark    int64 // where that was
	err     error
}

func (b *blobReader) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.body.Read(p)
	b.read += int64(n)
	if b.hash != nil {
		b.hash.Write(p[:n])
	}
	switch {
	case b.want.Size > 0 && b.read > b.want.Size:
		b.err = b.repo.failed(b.call, sizeMismatch(b.want.Size, b.read))
	case err == io.EOF && b.want.Size > 0 && b.read < b.want.Size:
		b.err = b.resume(io.ErrUnexpectedEOF)
	case err == io.EOF:
		b.err = b.verify()
	case err != nil:
		b.err = b.resume(err)
	}
	return n, b.err
}

// verify compares what was read. It returns io.EOF when all is well.
func (b *blobReader) verify() error {
	if b.hash == nil {
		return io.EOF
	}
	got := fmt.Sprintf("%s:%x", b.want.Digest.Algorithm(), b.hash.Sum(nil))
	if got != b.want.Digest.String() {
		return b.repo.failed(b.call, &oci.MismatchError{What: "digest", Want: b.want.Digest.String(), Got: got})
	}
	return io.EOF
}

// resume opens the rest after an interruption. It returns nil when there is
// more to read.
func (b *blobReader) resume(cause error) error {
	if b.read-b.mark >= resumeProgress {
		b.mark, b.resumed = b.read, 0
	}
	if b.ctx.Err() != nil || b.resumed >= resumes || !httpchain.Broken(cause) {
		return b.repo.failed(b.call, cause)
	}
	if b.resumed++; b.resumed > 1 {
		if err := b.repo.client.chain.Clock.Sleep(b.ctx, httpchain.Backoff(b.resumed-1)); err != nil {
			return b.repo.failed(b.call, err)
		}
	}
	_ = b.body.Close()
	body, err := b.repo.blobFrom(b.ctx, b.call, b.read)
	if err != nil {
		b.body = http.NoBody
		return err
	}
	b.body = body
	return nil
}

// blobFrom opens a blob at an offset. A server that does not know ranges sends
// it all; the start is skipped then.
func (r *Repository) blobFrom(ctx context.Context, c call, offset int64) (io.ReadCloser, error) {
	c.header = http.Header{"Range": {fmt.Sprintf("bytes=%d-", offset)}}
	resp, err := r.do(ctx, c, http.StatusPartialContent, http.StatusOK)
	if err != nil {
		return nil, err
	}
	skip := offset
	if resp.StatusCode == http.StatusPartialContent {
		start, ok := rangeStart(resp.Header.Get("Content-Range"))
		if !ok || start > offset {
			drop(resp)
			return nil, r.failed(c, fmt.Errorf("asked for bytes from %d, the answer is %q", offset, line(resp.Header.Get("Content-Range"))))
		}
		skip = offset - start
	}
	if _, err := io.CopyN(io.Discard, resp.Body, skip); err != nil {
		_ = resp.Body.Close()
		return nil, r.failed(c, err)
	}
	return resp.Body, nil
}

// rangeStart reads the first byte's position off a Content-Range header.
func rangeStart(s string) (int64, bool) {
	s, ok := strings.CutPrefix(s, "bytes ")
	first, _, dash := strings.Cut(s, "-")
	n, err := strconv.ParseInt(strings.TrimSpace(first), 10, 64)
	return n, ok && dash && err == nil && n >= 0
}

// Close ends the download.
func (b *blobReader) Close() error { return b.body.Close() }

// StatBlob reports whether a blob is there. One HEAD; a GET of its first byte
// when the answer may be a proxy's. It is not for manifests: some registries
// serve those as blobs, some do not.
func (r *Repository) StatBlob(ctx context.Context, d oci.Descriptor) (bool, error) {
	c := r.on(opStatBlob, d.Digest.String())
	c.method, c.path = http.MethodHead, "blobs/"+d.Digest.String()
	resp, err := r.send(ctx, c)
	if err != nil {
		return false, err
	}
	drop(resp)
	switch {
	case resp.StatusCode == http.StatusOK:
		if got := resp.ContentLength; got > 0 && d.Size > 0 && got != d.Size {
			return false, r.failed(c, sizeMismatch(d.Size, got))
		}
		return true, nil
	case resp.StatusCode == http.StatusNotFound && fromRegistry(resp.Header):
		return false, nil
	case resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed:
		return false, r.refused(c, resp)
	}
	return r.statByReading(ctx, c)
}

func (r *Repository) statByReading(ctx context.Context, c call) (bool, error) {
	c.method, c.header = http.MethodGet, http.Header{"Range": {"bytes=0-0"}}
	resp, err := r.do(ctx, c, http.StatusOK, http.StatusPartialContent)
	if err == nil {
		return true, resp.Body.Close()
	}
	if Absent(err) {
		return false, nil
	}
	return false, err
}
