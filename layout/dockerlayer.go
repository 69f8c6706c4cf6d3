package layout

import (
	"bufio"
	"compress/gzip"
	"context"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// openSource opens the bytes of a blob.
func (d *DockerArchive) openSource(ctx context.Context, s blobSource) (io.ReadCloser, error) {
	if !s.pack {
		return d.openMember(s.member)
	}
	plain, err := d.openPlain(ctx, s.member)
	if err != nil {
		return nil, err
	}
	r, w := io.Pipe()
	go func() {
		defer plain.Close()
		out := bufio.NewWriterSize(w, 32<<10) // not every symbol through the pipe
		_, _, _, err := pack(out, plain, digest.Canonical)
		if err == nil {
			err = out.Flush()
		}
		_ = w.CloseWithError(err) // nil is the end
	}()
	return r, nil
}

// pack compresses r into w as an engine does when it pushes, with compress/gzip
// at its default level and an empty header. It returns size and digest of what
// was written, and the digest of what was read.
func pack(w io.Writer, r io.Reader, plain digest.Algorithm) (size int64, sum, read digest.Digest, err error) {
	in, out := plain.Digester(), digest.Canonical.Digester()
	counted := &counter{w: io.MultiWriter(w, out.Hash())}
	z := gzip.NewWriter(counted)
	if _, err = io.Copy(z, io.TeeReader(r, in.Hash())); err == nil {
		err = z.Close()
	}
	return counted.n, out.Digest(), in.Digest(), err
}

type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// openPlain opens a layer, unpacked: an engine that loads an archive with
// compressed layers unpacks them, too.
func (d *DockerArchive) openPlain(ctx context.Context, member string) (io.ReadCloser, error) {
	f, err := d.openMember(member)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(cancelled(ctx, f))
	head, _ := in.Peek(6)
	var out io.ReadCloser
	switch compressedWith(head) {
	case "":
		out = io.NopCloser(in)
	case "gzip":
		out, err = gzip.NewReader(in)
	case "zstd":
		var z *zstd.Decoder
		if z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1)); err == nil {
			out = z.IOReadCloser()
		}
	default:
		err = errUnpack
	}
	if err != nil {
		_ = f.Close()
		return nil, &Error{Path: d.layout.path, Err: fmt.Errorf("%s: %w", member, err)}
	}
	return closeBoth{out, f}, nil
}

// closeBoth reads from one and closes two.
type closeBoth struct {
	io.ReadCloser
	file io.Closer
}

func (c closeBoth) Close() error {
	err := c.ReadCloser.Close()
	if ferr := c.file.Close(); err == nil {
		err = ferr
	}
	return err
}

// readerFunc is a function that is an [io.Reader].
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// cancelled ends a long read when the context does.
func cancelled(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}
