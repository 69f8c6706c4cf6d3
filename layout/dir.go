package layout

import (
	"errors"
	"os"
	"path/filepath"
)

// dir is a layout in a directory.
type dir struct{ root *os.Root }

func openDir(path string) (store, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, reason(err)
	}
	return dir{root: root}, nil
}

func (d dir) open(name string) (file, error) {
	// What is not a regular file is not opened: a named pipe would block.
	info, err := d.root.Stat(filepath.FromSlash(name))
	if err != nil {
		return file{}, err
	}
	if !info.Mode().IsRegular() {
		return file{}, errors.New("is not a regular file")
	}
	f, err := d.root.Open(filepath.FromSlash(name))
	if err != nil {
		return file{}, err
	}
	return file{ReadCloser: f, size: info.Size()}, nil
}

func (d dir) close() error { return d.root.Close() }
