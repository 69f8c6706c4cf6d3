// Package journal is a record, on disk, of a run that may be killed: what it
// set out to do, then a line for each step that is begun or done.
//
// One file per run, named by the caller, appended to and never rewritten. The
// head, and steps that are begun, are synced before the call returns: those
// change what others see. Steps that are done are not: whoever takes up a run
// asks for them anyway. A file is locked by the process that writes it, and
// removed when the run is done. A torn last line is what a killed process
// leaves, and is not read; an empty file is none.
//
// It refuses a record that another process is writing ([BusyError]). It knows
// nothing of what the head means.
//
// Read journal.go first; record.go reads files back.
package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	suffix  = ".journal"
	version = 1
)

// BusyError reports a record that another process is writing.
type BusyError struct{ Path string }

func (e *BusyError) Error() string { return e.Path + ": another process is at it" }

// Journal is a record that is being written. It is safe for concurrent use.
type Journal struct {
	path string

	mu  sync.Mutex
	f   *os.File
	err error
}

// Open takes the record with a name in a directory, which is made if need be.
// When there is one already, of a run that did not end, it is returned as
// earlier and goes on; else a new one begins with head, which is one JSON value.
// The error is a [*BusyError] or of the file system.
func Open(dir, name string, head []byte) (j *Journal, earlier *Record, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	path := filepath.Join(dir, name+suffix)
	f, err := lockedFile(path)
	if err != nil {
		return nil, nil, err
	}
	j = &Journal{path: path, f: f}
	if r, err := Read(path); err == nil {
		return j, &r, nil
	}
	if err := j.Restart(head); err != nil {
		return nil, nil, errors.Join(err, j.Remove())
	}
	return j, nil, nil
}

// lockedFile opens and locks a file that is still there once it is locked.
func lockedFile(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		ok, err := lock(f)
		if err != nil || !ok {
			_ = f.Close()
			if err == nil {
				err = &BusyError{Path: path}
			}
			return nil, err
		}
		if current(f, path) {
			return f, nil
		}
		_ = f.Close() // whoever had it has removed it
	}
}

func current(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Stat(path)
	return err == nil && os.SameFile(a, b)
}

// Path is the file of the record.
func (j *Journal) Path() string { return j.path }

// Restart begins the record anew with another head.
func (j *Journal) Restart(head []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.f.Truncate(0); err != nil {
		return err
	}
	if err := j.write(line{Version: version, Started: time.Now().UTC(), Head: jsontext.Value(head)}); err != nil {
		return err
	}
	return j.f.Sync()
}

// Begin notes a step and returns when that is on disk.
func (j *Journal) Begin(step string) {
	j.note(line{Begin: step}, true)
}

// Done notes a step that is done.
func (j *Journal) Done(step string) { j.note(line{Done: step}, false) }

func (j *Journal) note(l line, sync bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err != nil {
		return
	}
	if j.err = j.write(l); j.err == nil && sync {
		j.err = j.f.Sync()
	}
}

// write appends one line; j.mu is held.
func (j *Journal) write(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return fmt.Errorf("%s: %w", j.path, err)
	}
	_, err = j.f.Write(append(b, '\n'))
	return err
}

// Err is the first fault in writing, after which nothing more was written.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close ends the writing and keeps the record for whoever takes it up.
func (j *Journal) Close() error { return j.f.Close() }

// Remove removes the record of a run that did not end. The error is a
// [*BusyError] or of the file system.
func Remove(path string) error {
	if _, err := os.Stat(path); err != nil {
		return err
	}
	f, err := lockedFile(path)
	if err != nil {
		return err
	}
	return (&Journal{path: path, f: f}).Remove()
}

// Remove ends the run: there is nothing to take up.
func (j *Journal) Remove() error {
	err := os.Remove(j.path)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return errors.Join(err, j.f.Close())
}
