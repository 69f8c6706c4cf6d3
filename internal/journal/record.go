package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// line is one line of a file: the head, or a step.
type line struct {
	Version int            `json:"version,omitzero"`
	Started time.Time      `json:"started,omitzero"`
	Head    jsontext.Value `json:"head,omitzero"`
	Begin   string         `json:"begin,omitempty"`
	Done    string         `json:"done,omitempty"`
}

// Record is a file read back.
type Record struct {
	Path    string
	Started time.Time
	// Head is what the run set out to do, as it was given to [Open].
	Head []byte
	// Begun and Done are steps, in the order in which they were noted.
	Begun, Done []string
}

// Read reads one file.
func Read(path string) (Record, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	r := Record{Path: path}
	for first := true; ; first = false {
		text, rest, whole := bytes.Cut(b, []byte("\n"))
		if !whole {
			break
		}
		b = rest
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return Record{}, fmt.Errorf("%s: %w", path, err)
		}
		if first && l.Version != version {
			return Record{}, fmt.Errorf("%s: version %d, want %d", path, l.Version, version)
		}
		r.add(l)
	}
	if r.Head == nil {
		return Record{}, errors.New(path + ": no record")
	}
	return r, nil
}

func (r *Record) add(l line) {
	switch {
	case l.Head != nil:
		r.Started, r.Head = l.Started, l.Head
	case l.Begin != "":
		r.Begun = append(r.Begun, l.Begin)
	case l.Done != "":
		r.Done = append(r.Done, l.Done)
	}
}

// List reads the records of a directory, the oldest first. Files that cannot be
// read, and those that a process is writing, are left out.
func List(dir string) ([]Record, error) {
	paths, err := files(dir)
	if err != nil {
		return nil, err
	}
	var out []Record
	for _, path := range paths {
		if r, err := Read(path); err == nil && !busy(path) {
			out = append(out, r)
		}
	}
	return out, nil
}

// Prune removes the records that nobody has written to for an age: what they
// set out to do is of no use to anybody any more.
func Prune(dir string, age time.Duration) error {
	paths, err := files(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil || time.Since(info.ModTime()) < age {
			continue
		}
		f, err := lockedFile(path)
		if err != nil {
			continue // somebody is at it after all
		}
		errs = append(errs, (&Journal{path: path, f: f}).Remove())
	}
	return errors.Join(errs...)
}

func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var out []string
	for _, e := range entries {
		if filepath.Ext(e.Name()) == suffix {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, err
}

func busy(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	ok, err := lock(f)
	return err == nil && !ok
}
