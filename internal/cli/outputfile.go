package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/manifold-oci/manifold"
)

// outputFile is a file that a command writes when all is done, by the flag that
// names it.
type outputFile struct{ flag, path string }

// checkFiles refuses files that could not be written, before anything is done
// that would then have no witness. An empty path is no file.
func checkFiles(files ...outputFile) error {
	for _, f := range files {
		if f.path == "" {
			continue
		}
		if err := f.check(); err != nil {
			return usage("--%s %s: %w", f.flag, f.path, err)
		}
	}
	return nil
}

// check tries the directory with a file of its own, since that is how the file
// will be written; what is no ordinary file needs none.
func (f outputFile) check() error {
	info, err := os.Stat(f.path)
	switch {
	case err == nil && info.IsDir():
		return errors.New("is a directory")
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	dir := filepath.Dir(f.path)
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no directory %s", dir)
	}
	probe, err := os.CreateTemp(dir, ".manifold-*")
	if err != nil {
		return fmt.Errorf("directory %s: %w", dir, cause(err))
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// cause is the reason of an error about a path that the reader knows.
func cause(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// unwrittenError reports files that could not be written after a publish that
// happened.
type unwrittenError struct {
	receipt manifold.Receipt
	err     error
}

func (e *unwrittenError) Error() string {
	what := "published"
	if d := e.receipt.Digest; d != "" { // one image
		what += " " + d.String()
	}
	if len(e.receipt.Tags) > 0 && !e.receipt.Unchanged {
		what += ", and the tags have moved"
	}
	return fmt.Sprintf("%s, but %v", what, e.err)
}

func (e *unwrittenError) Unwrap() error { return e.err }

// published ends a publish that happened: unwritten is what is wrong with its
// files, which does not keep its result from being printed.
func published(r manifold.Receipt, print func() error, unwritten ...error) error {
	err := errors.Join(unwritten...)
	if err != nil {
		err = &unwrittenError{receipt: r, err: err}
	}
	return errors.Join(err, print())
}

// writeDigest writes the digest of what was published, or is to be.
func writeDigest(path, digest string) error {
	if path == "" {
		return nil
	}
	if err := writeWhole(path, []byte(digest)); err != nil {
		return fmt.Errorf("--digest-file could not be written: %w", err)
	}
	return nil
}
