// Package binarycheck holds the binaries of an image against the platform that
// the image says it is for.
//
// An image is easily labelled for one processor and filled for another: a stage
// that was pinned to the platform of the builder, a file that was copied from
// the wrong place. Nothing notices until it is started somewhere.
//
// [Check] reads the first bytes of the program that the image starts and of what
// its PATH holds, ELF, PE and Mach-O, and refuses a machine that cannot be the
// labelled one. It is bounded: of PATH, the files that changed last are looked
// at, [Limit] of them. It does not refuse scripts, files of a format that it
// does not know, 32-bit x86 programs on amd64, nor programs of another system in
// PATH.
//
// Read check.go first; headers.go is what the formats say.
package binarycheck

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"golang.org/x/sync/errgroup"
)

const (
	// Limit is how many files of PATH are read.
	Limit = 48
	// HeadSize is how many bytes of a file are read, from its start.
	HeadSize = 4096
	// parallel bounds requests under way.
	parallel = 4

	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Files is the file system of an image.
type Files interface {
	// Head reads the first n bytes of a file, or all when it is shorter; links
	// are followed.
	Head(ctx context.Context, name string, n int) ([]byte, error)
	// List lists a folder.
	List(ctx context.Context, dir string) ([]File, error)
}

// File is one entry of a folder.
type File struct {
	Name string
	// Program: a regular file that may be executed.
	Program bool
	Size    int64
	// Changed is when, in nanoseconds since 1970.
	Changed int64
}

// Image is what an image's config says about starting it.
type Image struct {
	Platform   oci.Platform
	Entrypoint []string
	Cmd        []string
	Env        []string
	WorkingDir string
}

// MismatchError reports a binary that is not of the image's platform.
type MismatchError struct {
	Platform oci.Platform
	File     string
	// Found is what the binary is: "ELF x86-64".
	Found string
}

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: %s is a binary for %s, the image is labelled %s", e.File, e.File, e.Found, oci.FormatPlatform(e.Platform))
}

// Check looks at an image. Files that are not there are passed over; the error
// is a *MismatchError, or what Files said of the root folder.
func Check(ctx context.Context, img Image, files Files) error {
	if !knows(img.Platform) {
		return nil
	}
	var root []File
	looks, looking := errgroup.WithContext(ctx)
	looks.Go(func() (err error) {
		root, err = files.List(looking, "/")
		return err
	})
	started := img.started(nil)
	looks.Go(func() error { return checkFiles(looking, img.Platform, files, started, true) })
	if err := looks.Wait(); err != nil {
		return err
	}
	dirs := img.path(root)
	found := slices.DeleteFunc(img.started(dirs), func(n string) bool { return slices.Contains(started, n) })
	if err := checkFiles(ctx, img.Platform, files, found, true); err != nil {
		return err
	}
	started = append(started, found...)
	names := slices.DeleteFunc(inPath(ctx, dirs, files), func(n string) bool { return slices.Contains(started, n) })
	return checkFiles(ctx, img.Platform, files, names, false)
}

// checkFiles reads files, a few at a time.
func checkFiles(ctx context.Context, p oci.Platform, files Files, names []string, start bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallel)
	for _, name := range names {
		group.Go(func() error { return checkFile(ctx, p, files, name, start) })
	}
	return group.Wait()
}

// checkFile reads one file. A program of another system is refused only if it is
// what the image starts.
func checkFile(ctx context.Context, p oci.Platform, files Files, name string, starts bool) error {
	head, err := files.Head(ctx, name, HeadSize)
	if err != nil {
		return context.Cause(ctx) // a file that is not there is no binary
	}
	h, ok := readHeader(head)
	if !ok || h.runs(p) || !starts && h.format != formatOf(p) {
		return nil
	}
	return &MismatchError{Platform: p, File: name, Found: h.String()}
}

// started lists the files that may be what the image starts, of programs without a
// folder those that dirs may have.
func (img Image) started(dirs []string) []string {
	var out []string
	for _, argv := range [][]string{img.Entrypoint, img.Cmd} {
		for _, word := range programs(argv) {
			out = append(out, img.places(word, dirs)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// programs are the words of a command that name a program: the first one, and of
// a command for a shell the first one of that.
func programs(argv []string) []string {
	if len(argv) == 0 {
		return nil
	}
	out := []string{argv[0]}
	shells := []string{"sh", "bash", "ash", "dash"}
	if len(argv) != 3 || argv[1] != "-c" || !slices.Contains(shells, path.Base(argv[0])) {
		return out
	}
	words := strings.Fields(argv[2])
	if len(words) > 1 && words[0] == "exec" {
		words = words[1:]
	}
	if len(words) > 0 && !strings.ContainsAny(words[0], `$"'=();&|<>`) {
		out = append(out, words[0])
	}
	return out
}

// places are where a program may be.
func (img Image) places(word string, dirs []string) []string {
	if word == "" {
		return nil
	}
	if strings.Contains(word, "/") {
		return []string{path.Join("/", absolute(img.WorkingDir, word))}
	}
	var out []string
	for _, dir := range dirs {
		out = append(out, path.Join(dir, word))
	}
	return out
}

func absolute(dir, name string) string {
	if strings.HasPrefix(name, "/") {
		return name
	}
	return path.Join(dir, name)
}

// path are the folders of PATH, each once. Those that cannot be there, going by
// the root folder, are left out: an image without them is asked for nothing.
func (img Image) path(root []File) []string {
	value := defaultPath
	for _, e := range img.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			value = v
		}
	}
	var out []string
	for dir := range strings.SplitSeq(value, ":") {
		if dir = path.Clean(dir); strings.HasPrefix(dir, "/") && !slices.Contains(out, dir) && within(root, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// within reports whether the root folder has the first part of a path.
func within(root []File, dir string) bool {
	first, _, _ := strings.Cut(dir[1:], "/")
	return first == "" || slices.ContainsFunc(root, func(f File) bool { return f.Name == first })
}

// inPath lists the programs of PATH that changed last. A folder that is another's
// link shows the same files, which are looked at once.
func inPath(ctx context.Context, dirs []string, files Files) []string {
	type found struct {
		File
		at string
	}
	var all []found
	seen := map[File]bool{}
	for _, dir := range dirs {
		list, err := files.List(ctx, dir)
		if err != nil {
			continue // most of PATH is not there in most images
		}
		for _, f := range list {
			if f.Program && !seen[f] {
				seen[f] = true
				all = append(all, found{f, path.Join(dir, f.Name)})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.Changed, a.Changed) })
	var out []string
	for _, f := range all[:min(len(all), Limit)] {
		out = append(out, f.at)
	}
	return out
}
