package layout

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Writer is a layout that is open for writing, and for reading what it holds.
// It is safe for concurrent use. [Writer.Commit] it when all is well, and
// [Layout.Close] it in any case.
//
// A directory is written as it goes: a blob is there whole or not at all, and a
// tag names content that is there. An archive takes the place of what was at its
// path when it is committed; until then nobody sees it, and without that nothing
// is left of it.
type Writer struct {
	*Layout
	sink sink
}

// sink is a store that is written to.
type sink interface {
	store
	// add makes a file of size bytes out of what fill writes. When fill fails,
	// there is no such file.
	add(name string, size int64, fill func(io.Writer) error) error
	// edit replaces index.json by what f makes of it, while nobody else does.
	edit(ctx context.Context, f func(old []byte) ([]byte, error)) error
	commit() error
}

// Create opens a directory for writing: one that holds a layout, an empty one,
// or one that is made when the first content comes. Anything else at path is
// refused. Errors are [*Error].
func Create(path string) (*Writer, error) {
	entries, err := os.ReadDir(path)
	switch {
	case err == nil && !beingMade(entries):
		return openExisting(path)
	case err != nil && !isNotExist(err):
		return nil, &Error{Path: path, Err: reason(err)}
	}
	return newWriter(path, &dirSink{path: path}), nil
}

// beingMade reports a directory that is empty, or that another writer is making
// a layout of: the marker is the last that it writes.
func beingMade(entries []os.DirEntry) bool {
	return !slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return e.Name() != ocispec.ImageIndexFile && !strings.HasPrefix(e.Name(), partPrefix)
	})
}

// CreateArchive opens a tar archive for writing. A file at path is replaced when
// the writer is committed; folders that are missing on the way to it are made
// then, too. Errors are [*Error].
func CreateArchive(path string) (*Writer, error) {
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return nil, &Error{Path: path, Err: errors.New("is not a regular file")}
	case err != nil && !isNotExist(err):
		return nil, &Error{Path: path, Err: reason(err)}
	}
	return newWriter(path, &tarSink{path: path, members: map[string]span{}}), nil
}

// checkFolder reports a path on which no folder can be made, since something
// else is there.
func checkFolder(path string) error {
	info, err := os.Stat(path)
	switch {
	case (isNotExist(err) || errors.Is(err, syscall.ENOTDIR)) && filepath.Dir(path) != path:
		return checkFolder(filepath.Dir(path))
	case err != nil:
		return reason(err)
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", path)
	}
	return nil
}

func newWriter(path string, s sink) *Writer {
	return &Writer{Layout: &Layout{path: path, store: s}, sink: s}
}

func openExisting(path string) (*Writer, error) {
	l, err := Open(path)
	if err != nil {
		return nil, err
	}
	d, ok := l.store.(dir)
	if !ok {
		_ = l.Close()
		return nil, &Error{Path: path, Err: errors.New("is not a directory")}
	}
	return newWriter(path, &dirSink{path: path, root: d.root}), nil
}

// Manifest reads what a tag or digest names. [Absent] errors when it is not
// there.
func (w *Writer) Manifest(ctx context.Context, identifier string) (oci.Blob, error) {
	return w.Resolve(ctx, identifier)
}

// WriteBlob makes the layout hold a blob. It is opened only if it is not there
// already, and written under its name only if it has the digest and the size of
// d. It reports whether it was written. Errors are [*Error], around an
// [*oci.MismatchError] for other bytes.
func (w *Writer) WriteBlob(ctx context.Context, d oci.Descriptor, open func(context.Context) (io.ReadCloser, error)) (bool, error) {
	there, err := w.StatBlob(ctx, d)
	var wrong *oci.MismatchError
	if err != nil && !errors.As(err, &wrong) {
		return false, err
	}
	if there && err == nil {
		return false, nil
	}
	name := blobName(d.Digest)
	err = w.sink.add(name, d.Size, func(out io.Writer) error { return copyBlob(ctx, out, d, open) })
	if err != nil {
		return false, w.about(d, reason(err))
	}
	return true, nil
}

func blobName(d digest.Digest) string {
	return ocispec.ImageBlobsDir + "/" + string(d.Algorithm()) + "/" + d.Encoded()
}

// copyBuffer is large enough that system calls do not count.
const copyBuffer = 256 << 10

// copyBlob writes the bytes of a blob and checks them on the way.
func copyBlob(ctx context.Context, out io.Writer, d oci.Descriptor, open func(context.Context) (io.ReadCloser, error)) error {
	in, err := open(ctx)
	if err != nil {
		return err
	}
	defer in.Close()
	digester := d.Digest.Algorithm().Digester()
	from := &cancelable{ctx, in}
	n, err := io.CopyBuffer(io.MultiWriter(out, digester.Hash()), io.LimitReader(from, d.Size), make([]byte, copyBuffer))
	if err != nil {
		return err
	}
	more, err := io.CopyN(io.Discard, from, 1) // the end of a source that checks itself
	if err != nil && err != io.EOF {
		return err
	}
	if n += more; n != d.Size {
		return &oci.MismatchError{What: "size", Want: fmt.Sprint(d.Size), Got: fmt.Sprintf("%d or more", n)}
	}
	if got := digester.Digest(); got != d.Digest {
		return &oci.MismatchError{What: "digest", Want: d.Digest.String(), Got: got.String()}
	}
	return nil
}

// cancelable ends reading when its context does. Like http.Request it holds the
// context of one operation.
type cancelable struct {
	ctx context.Context
	in  io.Reader
}

func (c *cancelable) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, context.Cause(c.ctx)
	}
	return c.in.Read(p)
}

// PutManifest stores a manifest or index by digest, under no tag.
func (w *Writer) PutManifest(ctx context.Context, b oci.Blob) error {
	if err := oci.Check(b.Descriptor, b.Bytes); err != nil {
		return w.about(b.Descriptor, err)
	}
	_, err := w.WriteBlob(ctx, b.Descriptor, func(context.Context) (io.ReadCloser, error) { return bytesOf(b), nil })
	return err
}

// PutTag stores a manifest or index and makes a tag name it: the entry of
// index.json with that org.opencontainers.image.ref.name. Other entries, and
// members of index.json that this program does not know, stay. An empty tag makes
// index.json list it without a name, unless it does already.
func (w *Writer) PutTag(ctx context.Context, tag string, b oci.Blob) error {
	if err := w.PutManifest(ctx, b); err != nil {
		return err
	}
	return w.editIndex(ctx, func(entries []oci.Entry) ([]oci.Entry, error) {
		return withTag(entries, tag, b)
	})
}

// DeleteTag removes a tag and leaves what it names. [Absent] errors when it is
// not there.
func (w *Writer) DeleteTag(ctx context.Context, tag string) error {
	return w.editIndex(ctx, func(entries []oci.Entry) ([]oci.Entry, error) {
		kept := withoutTag(entries, tag)
		if len(kept) == len(entries) {
			return nil, &TagError{Path: w.path, Tag: tag, Have: tags(oci.Index{Manifests: entries})}
		}
		return kept, nil
	})
}

func (w *Writer) editIndex(ctx context.Context, f func([]oci.Entry) ([]oci.Entry, error)) error {
	err := w.sink.edit(ctx, func(old []byte) ([]byte, error) { return edited(old, f) })
	var typed *TagError
	if err == nil || errors.As(err, &typed) {
		return err
	}
	return &Error{Path: w.path, Err: fmt.Errorf("%s: %w", ocispec.ImageIndexFile, reason(err))}
}

// Commit makes everything that was written last: an archive appears at its path.
func (w *Writer) Commit() error {
	if err := w.sink.commit(); err != nil {
		return &Error{Path: w.path, Err: reason(err)}
	}
	return nil
}
