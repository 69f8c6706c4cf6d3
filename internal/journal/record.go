package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
		return Record{}, errors.New(path + ": does not say what it set out to do")
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

// Fault is a file of which nobody knows what it remembers: it is damaged, or of
// a version that this one does not know.
type Fault struct {
	Path string
	Err  error
}

// List reads the records of a directory. Files that a process is writing, and
// empty ones, are left out; those that cannot be read are faults.
func List(dir string) ([]Record, []Fault, error) {
	paths, err := files(dir)
	if err != nil {
		return nil, nil, err
	}
	var out []Record
	var faults []Fault
	for _, path := range paths {
		r, err := Read(path)
		switch {
		case busy(path), empty(path):
		case err != nil:
			faults = append(faults, Fault{Path: path, Err: err})
		default:
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, func(a, b Record) int { return a.Started.Compare(b.Started) })
	return out, faults, nil
}

// empty reports a file that was just made, or that is no more.
func empty(path string) bool {
	info, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist) || err == nil && info.Size() == 0
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
