package dockermanifest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Store is the folder of the local lists, $DOCKER_CONFIG/manifests. A file is
// replaced whole, so that a reader never sees half of one.
type Store struct{ Dir string }

// fileName is the name that Docker gives to the directory of a list and to the
// file of an entry. Different references may have one name.
func fileName(r ref.Reference) string {
	return strings.NewReplacer(":", "-", "/", "_").Replace(r.String())
}

// ownName is a name that no other reference has: "~" is in no reference, so it
// is no name that Docker gives either.
func ownName(r ref.Reference) string {
	return fileName(r) + "~" + digest.FromString(r.String()).Encoded()[:12]
}

// find returns the directory of a list and whether it is there. A list gets the
// directory that Docker would give it, unless that is another list's; once that
// one is gone, it moves there.
func (s Store) find(list ref.Reference) (dir string, there bool, err error) {
	own, shared := filepath.Join(s.Dir, ownName(list)), filepath.Join(s.Dir, fileName(list))
	hasOwn, err := exists(own)
	if err != nil {
		return own, false, err
	}
	hasShared, err := exists(shared)
	switch {
	case err != nil:
		return shared, false, err
	case hasOwn && (hasShared || os.Rename(own, shared) != nil):
		return own, true, nil
	case hasOwn:
		return shared, true, nil
	case !hasShared:
		return shared, false, nil
	}
	owner, err := ownerOf(shared)
	if err != nil || owner == "" || owner == list.String() {
		return shared, true, err
	}
	return own, false, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ownerOf is the list that a directory belongs to, "" when Docker alone has
// written there and nobody can tell. An entry that Docker has amended or
// annotated says nothing, so one that does is enough.
func ownerOf(dir string) (string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	for _, f := range files {
		if e, err := readEntry(dir, f.Name()); err == nil && e.list != "" {
			return e.list, nil
		}
	}
	return "", nil
}

// read reads the entries of a directory in the order of their files, which is
// the order in which Docker lists them.
func read(dir string) ([]Entry, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, f := range files {
		e, err := readEntry(dir, f.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func readEntry(dir, file string) (Entry, error) {
	path := filepath.Join(dir, file)
	b, err := os.ReadFile(path)
	if err != nil {
		return Entry{}, err
	}
	e, err := decode(b)
	if err != nil {
		return Entry{}, &FileError{Path: path, Err: err}
	}
	e.file = file
	return e, nil
}

// Entries returns the entries of a list in their order. The error is a
// [*NotFoundError] when there is no such list.
func (s Store) Entries(list ref.Reference) ([]Entry, error) {
	dir, there, err := s.find(list)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, &NotFoundError{Name: list.String()}
	}
	return read(dir)
}

// Entry returns the entry of a source: the one that it names, or the only one
// that came from it. Errors: [*NotFoundError] that names the source,
// [*AmbiguousError].
func (s Store) Entry(list, source ref.Reference) (Entry, error) {
	entries, err := s.Entries(list)
	var none *NotFoundError
	if err != nil && !errors.As(err, &none) {
		return Entry{}, err
	}
	found := of(entries, source)
	switch len(found) {
	case 0:
		return Entry{}, &NotFoundError{Name: source.String()}
	case 1:
		return found[0], nil
	}
	bad := &AmbiguousError{Source: source.String()}
	for _, e := range found {
		bad.Entries = append(bad.Entries, e.Ref.String())
	}
	return Entry{}, bad
}

// of returns the entries of a source.
func of(entries []Entry, source ref.Reference) []Entry {
	if i := slices.IndexFunc(entries, func(e Entry) bool { return e.Ref == source }); i >= 0 {
		return entries[i : i+1]
	}
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Source != source })
}

// Save adds entries to a list, which is made if need be, in place of those of
// the same name.
func (s Store) Save(list ref.Reference, entries ...Entry) error {
	dir, _, err := s.find(list)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	known, err := read(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		e.list = list.String()
		e.file = fileFor(known, e.Ref)
		if err := s.write(filepath.Join(dir, e.file), e); err != nil {
			return err
		}
		known = append(known, e)
	}
	return nil
}

// fileFor is the file of an entry: the one that it has, else the one that Docker
// would give it, unless that is another entry's.
func fileFor(known []Entry, r ref.Reference) string {
	name := fileName(r)
	for _, e := range known {
		if e.Ref == r {
			return e.file
		}
	}
	if slices.ContainsFunc(known, func(e Entry) bool { return e.file == name }) {
		return ownName(r)
	}
	return name
}

// write replaces a file. The new one is made beside the lists: Docker takes
// every file in a list for an entry.
func (s Store) write(path string, e Entry) error {
	b, err := encode(e)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(s.Dir, ".entry-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(b)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Forget removes entries from a list.
func (s Store) Forget(list ref.Reference, entries ...Entry) error {
	dir, _, err := s.find(list)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Remove(filepath.Join(dir, e.file)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Remove removes a list. The error is a [*NotFoundError] when there is none.
func (s Store) Remove(list ref.Reference) error {
	dir, there, err := s.find(list)
	if err != nil {
		return err
	}
	if !there {
		return &NotFoundError{Name: list.String()}
	}
	return os.RemoveAll(dir)
}
