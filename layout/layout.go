// Package layout reads and writes OCI image layouts: directories, and tar
// archives of them. It also reads what "docker save" writes, and images of a
// Docker Engine.
//
// An archive is indexed once, by its headers, and read in place; nothing is
// extracted. What is read is checked: manifests against digest and size before
// they are returned, blobs when their last byte has been read. Names come from
// digests that were validated, and a directory is opened as a root that no name
// or symbolic link leaves.
//
// Refused: compressed archives, archives that are cut short or list index.json
// twice, sparse files, layouts of another version, and references that name
// more than one image.
//
// What is written is there whole or not at all: a blob gets its name when its
// bytes have its digest, index.json is replaced under the lock that BuildKit
// takes too, an archive appears when it is complete.
//
// Read layout.go first, then resolve.go (which image a tag names), blob.go and
// write.go; dir.go and tar.go, write_dir.go and write_tar.go are the two kinds of
// store. dockerarchive.go says what is
// promised about images of Docker, dockerimage.go makes their manifests.
package layout

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/oci"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Layout is an image layout that is open for reading. It is safe for concurrent
// use.
type Layout struct {
	path  string
	store store
}

// store gives the files of a layout by their names in it, with slashes. A name
// that is not there is an error that is [fs.ErrNotExist].
type store interface {
	open(name string) (file, error)
	close() error
}

// file is one file of a layout, with its size in bytes.
type file struct {
	io.ReadCloser
	size int64
}

// maxMarker bounds the oci-layout file, which holds one number.
const maxMarker = 64 << 10

// Open opens the layout at path: a directory, or a tar archive. Errors are
// [*Error] with the path.
func Open(path string) (*Layout, error) {
	s, err := openStore(path)
	if err != nil {
		return nil, &Error{Path: path, Err: err}
	}
	l := &Layout{path: path, store: s}
	if err := l.checkVersion(); err != nil {
		_ = s.close()
		return nil, err
	}
	return l, nil
}

func openStore(path string) (store, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, reason(err)
	}
	if info.IsDir() {
		return openDir(path)
	}
	return openTar(path)
}

// Close releases the directory or archive. Blobs still open end with an error.
func (l *Layout) Close() error { return l.store.close() }

// Path is what was given to [Open].
func (l *Layout) Path() string { return l.path }

func (l *Layout) checkVersion() error {
	b, err := l.readFile(ocispec.ImageLayoutFile, maxMarker)
	if err != nil {
		return err
	}
	var v ocispec.ImageLayout
	if err := json.Unmarshal(b, &v); err != nil {
		return l.errorf("%s: is not JSON", ocispec.ImageLayoutFile)
	}
	if v.Version != ocispec.ImageLayoutVersion {
		return l.errorf("%s: version %q, want %q", ocispec.ImageLayoutFile, v.Version, ocispec.ImageLayoutVersion)
	}
	return nil
}

// readFile reads a file that every layout has.
func (l *Layout) readFile(name string, limit int64) ([]byte, error) {
	f, err := l.store.open(name)
	if isNotExist(err) {
		return nil, l.errorf("is not an image layout: %s is missing", name)
	}
	if err != nil {
		return nil, &Error{Path: l.path, Err: fmt.Errorf("%s: %w", name, reason(err))}
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, &Error{Path: l.path, Err: fmt.Errorf("%s: %w", name, reason(err))}
	}
	if int64(len(b)) > limit {
		return nil, l.errorf("%s: more than %d bytes", name, limit)
	}
	return b, nil
}

// index reads index.json.
func (l *Layout) index(ctx context.Context) (oci.Blob, oci.Index, error) {
	if err := ctx.Err(); err != nil {
		return oci.Blob{}, oci.Index{}, err
	}
	b, err := l.readFile(ocispec.ImageIndexFile, oci.MaxManifestSize)
	if err != nil {
		return oci.Blob{}, oci.Index{}, err
	}
	blob := oci.NewBlob("", b)
	idx, err := oci.ParseIndex(blob)
	if err != nil {
		return oci.Blob{}, oci.Index{}, &Error{Path: l.path, Err: fmt.Errorf("%s: %w", ocispec.ImageIndexFile, err)}
	}
	blob.MediaType = idx.MediaType
	return blob, idx, nil
}
