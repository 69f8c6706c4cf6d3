package layout

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path"
	"path/filepath"
	"sync"
	"time"

	"github.com/manifold-oci/manifold/internal/clock"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// dirSink is a layout in a directory that is written to. The directory is made
// by the first write.
type dirSink struct {
	path string

	mu   sync.Mutex // guards root
	root *os.Root
}

// lockFile is the lock that BuildKit and buildx take, too.
const lockFile = ocispec.ImageIndexFile + ".lock"

// lockPause is how long to wait before a lock is asked for again.
const lockPause = 20 * time.Millisecond

func (d *dirSink) open(name string) (file, error) {
	d.mu.Lock()
	root := d.root
	d.mu.Unlock()
	if root == nil {
		return unborn(name)
	}
	return dir{root: root}.open(name)
}

// unborn gives the files that a layout has before anything was written.
func unborn(name string) (file, error) {
	switch name {
	case ocispec.ImageIndexFile:
		return fileOf(emptyIndex), nil
	case ocispec.ImageLayoutFile:
		return fileOf(marker), nil
	}
	return file{}, os.ErrNotExist
}

func fileOf(s string) file {
	return file{ReadCloser: io.NopCloser(bytes.NewReader([]byte(s))), size: int64(len(s))}
}

func (d *dirSink) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root == nil {
		return nil
	}
	return d.root.Close()
}

func (d *dirSink) commit() error { return nil }

// born returns the directory, which is a layout from then on.
func (d *dirSink) born() (*os.Root, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.root != nil {
		return d.root, nil
	}
	if err := os.MkdirAll(d.path, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	for _, f := range []struct{ name, text string }{{ocispec.ImageIndexFile, emptyIndex}, {ocispec.ImageLayoutFile, marker}} {
		if err := startFile(root, f.name, f.text); err != nil {
			_ = root.Close()
			return nil, err
		}
	}
	d.root = root
	return root, nil
}

// startFile makes a file unless another process was faster. It has its whole
// text from the beginning, where the file system has links.
func startFile(root *os.Root, name, text string) error {
	if _, err := root.Lstat(name); err == nil {
		return nil
	}
	fill := func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
	err := install(root, fill, func(part string) error {
		if err := root.Link(part, name); err != nil {
			return err
		}
		_ = root.Remove(part)
		return nil
	})
	if err == nil || errors.Is(err, os.ErrExist) {
		return nil
	}
	return startSlowly(root, name, fill)
}

// startSlowly is startFile without links.
func startSlowly(root *os.Root, name string, fill func(io.Writer) error) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Close())
}

func (d *dirSink) add(name string, _ int64, fill func(io.Writer) error) error {
	root, err := d.born()
	if err != nil {
		return err
	}
	if err := root.MkdirAll(filepath.FromSlash(path.Dir(name)), 0o755); err != nil {
		return err
	}
	return replace(root, name, fill)
}

// partPrefix begins the names of files that are not whole yet.
const partPrefix = ".part-"

// replace writes a file beside the layout's and gives it its name when it is
// whole.
func replace(root *os.Root, name string, fill func(io.Writer) error) error {
	return install(root, fill, func(part string) error { return root.Rename(part, filepath.FromSlash(name)) })
}

// install writes a file and has it named when it is whole; otherwise nothing of
// it is left.
func install(root *os.Root, fill func(io.Writer) error, give func(part string) error) error {
	part := partPrefix + rand.Text()
	f, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = fill(f)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = give(part)
	}
	if err != nil {
		_ = root.Remove(part)
	}
	return err
}

func (d *dirSink) edit(ctx context.Context, f func([]byte) ([]byte, error)) error {
	root, err := d.born()
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, root)
	if err != nil {
		return err
	}
	defer unlock()
	old, err := root.ReadFile(ocispec.ImageIndexFile)
	if err != nil {
		return err
	}
	b, err := f(old)
	if err != nil {
		return err
	}
	return replace(root, ocispec.ImageIndexFile, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// lock takes the lock of a layout, waiting for whoever has it.
func lock(ctx context.Context, root *os.Root) (unlock func(), err error) {
	f, err := root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		ok, err := tryLock(f)
		if ok {
			return func() { _ = f.Close() }, nil
		}
		if err == nil {
			err = clock.Sleep(ctx, lockPause)
		}
		if err != nil {
			_ = f.Close()
			return nil, err
		}
	}
}
