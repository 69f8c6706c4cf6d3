package layout

import (
	"archive/tar"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// tarSink is an archive that is being written, under another name until it is
// whole. Members are written one at a time, as they come; index.json is last.
type tarSink struct {
	path string

	mu      sync.Mutex // guards what follows; held while a member is written
	f       *os.File   // nil before the first write and after the last
	members map[string]span
	index   []byte
	made    []string // folders, the innermost first
}

func (t *tarSink) open(name string) (file, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if name == ocispec.ImageIndexFile && t.index != nil {
		return fileOf(string(t.index)), nil
	}
	s, ok := t.members[name]
	if !ok {
		return unborn(name)
	}
	return file{ReadCloser: io.NopCloser(io.NewSectionReader(t.f, s.offset, s.size)), size: s.size}, nil
}

// begin makes the file; t.mu is held.
func (t *tarSink) begin() (err error) {
	if t.f != nil {
		return nil
	}
	made, err := makeFolders(filepath.Dir(t.path))
	t.made = append(t.made, made...)
	if err != nil {
		return err
	}
	part := filepath.Join(filepath.Dir(t.path), "."+filepath.Base(t.path)+".part-"+rand.Text())
	t.f, err = os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	return err
}

// makeFolders makes what is missing of a path and returns that, the innermost
// first.
func makeFolders(path string) ([]string, error) {
	var missing []string
	for p := path; filepath.Dir(p) != p; p = filepath.Dir(p) {
		if _, err := os.Stat(p); !isNotExist(err) {
			break
		}
		missing = append(missing, p)
	}
	return missing, os.MkdirAll(path, 0o755)
}

func (t *tarSink) add(name string, size int64, fill func(io.Writer) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.members[name]; ok {
		return nil
	}
	return t.member(name, size, fill)
}

// member writes one file at the end, and takes it back when fill fails; t.mu is
// held.
func (t *tarSink) member(name string, size int64, fill func(io.Writer) error) error {
	if err := t.begin(); err != nil {
		return err
	}
	start, err := t.f.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	offset, err := t.write(name, size, fill)
	if err != nil {
		return errors.Join(err, t.f.Truncate(start))
	}
	t.members[name] = span{offset: offset, size: size}
	return nil
}

func (t *tarSink) write(name string, size int64, fill func(io.Writer) error) (offset int64, err error) {
	w := tar.NewWriter(t.f)
	err = w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: size, Typeflag: tar.TypeReg})
	if err != nil {
		return 0, err
	}
	if offset, err = t.f.Seek(0, io.SeekCurrent); err != nil {
		return 0, err
	}
	if err := fill(w); err != nil {
		return 0, err
	}
	return offset, w.Flush()
}

func (t *tarSink) edit(_ context.Context, f func([]byte) ([]byte, error)) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.index
	if old == nil {
		old = []byte(emptyIndex)
	}
	b, err := f(old)
	if err == nil {
		t.index = b
	}
	return err
}

// commit ends the archive and gives it its name.
func (t *tarSink) commit() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.f == nil {
		return nil
	}
	for _, m := range []struct{ name, text string }{{ocispec.ImageLayoutFile, marker}, {ocispec.ImageIndexFile, string(t.index)}} {
		if m.text == "" {
			m.text = emptyIndex
		}
		err := t.member(m.name, int64(len(m.text)), func(w io.Writer) error {
			_, err := io.WriteString(w, m.text)
			return err
		})
		if err != nil {
			return err
		}
	}
	if err := tar.NewWriter(t.f).Close(); err != nil {
		return err
	}
	if err := errors.Join(t.f.Sync(), t.f.Close()); err != nil {
		return err
	}
	err := os.Rename(t.f.Name(), t.path)
	if err == nil {
		t.f, t.made = nil, nil
	}
	return err
}

// close removes what was not committed.
func (t *tarSink) close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	if t.f != nil {
		_ = t.f.Close()
		err = os.Remove(t.f.Name())
	}
	for _, folder := range t.made {
		_ = os.Remove(folder) // stays when somebody else has put something there
	}
	t.f, t.members, t.made = nil, nil, nil
	return err
}
