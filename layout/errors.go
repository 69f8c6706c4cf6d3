package layout

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/opencontainers/go-digest"
)

// Error reports a layout that cannot be read or written.
type Error struct {
	// Path of the layout.
	Path string
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("layout %s: %v", e.Path, e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// MissingError reports content that a layout does not hold, as when it was
// saved for one platform only.
type MissingError struct {
	// Path of the layout.
	Path   string
	Digest digest.Digest
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("layout %s: %s is not in it", e.Path, e.Digest)
}

// Absent reports whether err says that a layout does not hold the content or has
// no such tag, or that an engine does not have the image, as opposed to that it
// could not be read.
func Absent(err error) bool {
	var m *MissingError
	var t *TagError
	var e *EngineError
	return errors.As(err, &m) || errors.As(err, &t) && t.Tag != "" && !t.Ambiguous ||
		errors.As(err, &e) && e.Status == http.StatusNotFound
}

// TagError reports a tag that names no image of a layout, or more than one.
type TagError struct {
	// Path of the layout.
	Path string
	// Tag that was asked for, empty for "the only image".
	Tag string
	// Ambiguous says that there is more than one.
	Ambiguous bool
	// Have are the tags that the layout has.
	Have []string
}

func (e *TagError) Error() string {
	what := "has no image"
	switch {
	case e.Ambiguous && e.Tag == "":
		what = "has more than one image"
	case e.Ambiguous:
		what = fmt.Sprintf("has more than one image tagged %q", e.Tag)
	case e.Tag != "":
		what = fmt.Sprintf("has no image tagged %q", e.Tag)
	}
	if len(e.Have) > 0 {
		what += ", it has the tags " + strings.Join(e.Have, ", ")
	}
	return fmt.Sprintf("layout %s: %s", e.Path, what)
}

func (l *Layout) errorf(format string, args ...any) error {
	return &Error{Path: l.path, Err: fmt.Errorf(format, args...)}
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// reason drops the path and the system call of an error: [Error] says the path.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
