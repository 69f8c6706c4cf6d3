package layout

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// archive is a layout in a tar file: where each member's bytes are.
type archive struct {
	f       *os.File
	members map[string]span
}

// span is a part of a file, in bytes.
type span struct{ offset, size int64 }

// openFile opens a file, and nothing that is not one: a pipe would be waited for
// without end.
func openFile(name string) (*os.File, error) {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return nil, err
	}
	return os.Open(name)
}

func openTar(name string) (store, error) {
	f, err := openFile(name)
	if err != nil {
		return nil, reason(err)
	}
	members, err := scan(f)
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return &archive{f: f, members: members}, nil
}

func (a *archive) open(name string) (file, error) {
	s, ok := a.members[name]
	if !ok {
		return file{}, fs.ErrNotExist
	}
	return file{ReadCloser: io.NopCloser(io.NewSectionReader(a.f, s.offset, s.size)), size: s.size}, nil
}

func (a *archive) close() error { return a.f.Close() }

// block is the unit of a tar, in bytes. Two zero blocks end one.
const block = 512

// scan reads the headers of a tar. Bytes of members are skipped by seeking.
func scan(f io.ReadSeeker) (map[string]span, error) {
	return scanWith(f, func(*tar.Header) {})
}

// scanWith shows every header to see, too.
func scanWith(f io.ReadSeeker, see func(*tar.Header)) (map[string]span, error) {
	if err := checkMagic(f); err != nil {
		return nil, err
	}
	members := map[string]span{}
	var end int64 // of the last member
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return members, checkEnd(f, end)
		case errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errCut
		case err != nil:
			return nil, fmt.Errorf("is not a tar archive: %w", err)
		}
		offset, err := f.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		end = offset + (h.Size+block-1)/block*block
		see(h)
		if err := addMember(members, h, offset); err != nil {
			return nil, err
		}
	}
}

var errCut = errors.New("archive is cut short")

// checkEnd tells an archive that ends from one that was cut between members.
func checkEnd(f io.Seeker, end int64) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && at < end+block {
		return errCut
	}
	return err
}

// addMember notes a regular file. A blob that is listed twice is checked by its
// digest, so either will do; the files that say what the layout holds must be
// there once.
func addMember(members map[string]span, h *tar.Header, offset int64) error {
	if h.Typeflag != tar.TypeReg {
		return nil
	}
	name := memberName(h.Name)
	if isSparse(h) {
		return fmt.Errorf("%s: is stored as a sparse file", name)
	}
	if _, ok := members[name]; ok && (name == ocispec.ImageIndexFile || name == ocispec.ImageLayoutFile || name == dockerManifestFile) {
		return fmt.Errorf("%s: is in the archive twice", name)
	}
	members[name] = span{offset: offset, size: h.Size}
	return nil
}

func memberName(s string) string { return path.Clean(strings.TrimPrefix(s, "./")) }

// isSparse reports a file whose bytes are not stored one after the other.
func isSparse(h *tar.Header) bool {
	for k := range h.PAXRecords {
		if strings.HasPrefix(k, "GNU.sparse.") {
			return true
		}
	}
	return h.Typeflag == tar.TypeGNUSparse
}

// compressions are the first bytes of files that have to be unpacked first.
func compressions() map[string][]byte {
	return map[string][]byte{
		"gzip":  {0x1f, 0x8b},
		"zstd":  {0x28, 0xb5, 0x2f, 0xfd},
		"bzip2": []byte("BZh"),
		"xz":    {0xfd, '7', 'z', 'X', 'Z', 0},
	}
}

func checkMagic(f io.ReadSeeker) error {
	head := make([]byte, 6)
	n, err := io.ReadFull(f, head)
	if err != nil && n == 0 {
		return errors.New("archive is empty")
	}
	for name, magic := range compressions() {
		if bytes.HasPrefix(head[:n], magic) {
			return fmt.Errorf("is compressed with %s: decompress it first, archives are read in place", name)
		}
	}
	_, err = f.Seek(0, io.SeekStart)
	return err
}
