package binarycheck

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
)

func elfOf(machine uint16, class, order byte) []byte {
	b := make([]byte, 64)
	copy(b, "\x7fELF")
	b[4], b[5] = class, order
	if order == 2 {
		binary.BigEndian.PutUint16(b[18:], machine)
	} else {
		binary.LittleEndian.PutUint16(b[18:], machine)
	}
	return b
}

func peOf(machine uint16) []byte {
	b := make([]byte, 256)
	copy(b, "MZ")
	b[0x3c] = 128
	copy(b[128:], "PE\x00\x00")
	binary.LittleEndian.PutUint16(b[132:], machine)
	return b
}

func fat(types ...uint32) []byte {
	b := []byte{0xca, 0xfe, 0xba, 0xbe}
	b = binary.BigEndian.AppendUint32(b, uint32(len(types)))
	for _, t := range types {
		b = append(binary.BigEndian.AppendUint32(b, t), make([]byte, 16)...)
	}
	return b
}

var (
	amd64  = elfOf(62, 2, 1)
	arm64  = elfOf(183, 2, 1)
	script = []byte("#!/bin/sh\n")
)

// tree is an image's files; all of them are programs.
type tree map[string][]byte

func (t tree) Head(_ context.Context, name string, n int) ([]byte, error) {
	b, ok := t[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b[:min(n, len(b))], nil
}

func (t tree) List(_ context.Context, dir string) ([]File, error) {
	var out []File
	for name, b := range t {
		if path.Dir(name) == dir {
			changed, _ := strconv.ParseInt(path.Base(name), 10, 64)
			out = append(out, File{Name: path.Base(name), Program: true, Size: int64(len(b)), Changed: changed})
		}
	}
	if dir == "/" {
		return append(out, t.folders()...), nil
	}
	if len(out) == 0 {
		return nil, fs.ErrNotExist
	}
	return out, nil
}

func (t tree) folders() []File {
	var out []File
	for name := range t {
		if first, _, deeper := strings.Cut(name[1:], "/"); deeper {
			out = append(out, File{Name: first})
		}
	}
	return out
}

func platform(t *testing.T, s string) oci.Platform {
	t.Helper()
	p, err := oci.ParsePlatform(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestBinaryOfAnotherProcessorIsFound(t *testing.T) {
	for name, tc := range map[string]struct {
		platform string
		image    Image
		files    tree
		want     string // the file, "" for none
	}{
		"entrypoint":            {"linux/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": amd64}, "/app"},
		"entrypoint that fits":  {"linux/amd64", Image{Entrypoint: []string{"/app"}}, tree{"/app": amd64}, ""},
		"relative":              {"linux/arm64", Image{Cmd: []string{"./app"}, WorkingDir: "/srv"}, tree{"/srv/app": amd64}, "/srv/app"},
		"in PATH of the image":  {"linux/arm64", Image{Env: []string{"PATH=/opt/bin"}}, tree{"/opt/bin/tool": amd64, "/usr/bin/other": amd64}, "/opt/bin/tool"},
		"in the usual PATH":     {"linux/arm64", Image{}, tree{"/usr/bin/tool": amd64}, "/usr/bin/tool"},
		"by its name":           {"linux/arm64", Image{Cmd: []string{"tool", "-v"}}, tree{"/bin/tool": amd64}, "/bin/tool"},
		"behind a shell":        {"linux/arm64", Image{Cmd: []string{"/bin/sh", "-c", "exec /app -v"}}, tree{"/bin/sh": arm64, "/app": amd64}, "/app"},
		"a variable of a shell": {"linux/arm64", Image{Cmd: []string{"/bin/sh", "-c", "$APP"}}, tree{"/bin/sh": arm64}, ""},
		"not in PATH":           {"linux/arm64", Image{}, tree{"/data/tool": amd64}, ""},
		"script":                {"linux/arm64", Image{Entrypoint: []string{"/run"}}, tree{"/run": script}, ""},
		"not there":             {"linux/arm64", Image{Entrypoint: []string{"/gone"}}, tree{"/bin/sh": arm64}, ""},
		"nothing at all":        {"linux/arm64", Image{}, tree{}, ""},
		"short file":            {"linux/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": []byte("\x7fELF")}, ""},
		"32 bits on amd64":      {"linux/amd64", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(3, 1, 1)}, ""},
		"64 bits on 386":        {"linux/386", Image{Entrypoint: []string{"/app"}}, tree{"/app": amd64}, "/app"},
		"arm on arm64":          {"linux/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(40, 1, 1)}, "/app"},
		"arm of any variant":    {"linux/arm/v6", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(40, 1, 1)}, ""},
		"big endian":            {"linux/ppc64le", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(21, 2, 2)}, "/app"},
		"s390x":                 {"linux/s390x", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(22, 2, 2)}, ""},
		"unknown machine":       {"linux/amd64", Image{Entrypoint: []string{"/app"}}, tree{"/app": elfOf(999, 2, 1)}, "/app"},
		"unknown platform":      {"wasip1/wasm", Image{Entrypoint: []string{"/app"}}, tree{"/app": amd64}, ""},
		"windows started":       {"linux/amd64", Image{Entrypoint: []string{"/app.exe"}}, tree{"/app.exe": peOf(0x8664)}, "/app.exe"},
		"windows lying about":   {"linux/amd64", Image{}, tree{"/usr/bin/app.exe": peOf(0xaa64)}, ""},
		"windows":               {"windows/amd64", Image{Entrypoint: []string{"/app.exe"}}, tree{"/app.exe": peOf(0xaa64)}, "/app.exe"},
		"windows that fits":     {"windows/arm64", Image{Entrypoint: []string{"/app.exe"}}, tree{"/app.exe": peOf(0xaa64)}, ""},
		"mac, one of two":       {"darwin/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": fat(0x01000007, 0x0100000c)}, ""},
		"mac, another":          {"darwin/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": fat(0x01000007)}, "/app"},
		"java class":            {"darwin/arm64", Image{Entrypoint: []string{"/app"}}, tree{"/app": append([]byte{0xca, 0xfe, 0xba, 0xbe, 0, 0, 0, 61}, make([]byte, 100)...)}, ""},
	} {
		tc.image.Platform = platform(t, tc.platform)
		err := Check(t.Context(), tc.image, tc.files)
		var mismatch *MismatchError
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.want != "" && (!errors.As(err, &mismatch) || mismatch.File != tc.want):
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

func TestFilesThatChangedLastAreLookedAtFirst(t *testing.T) {
	files := tree{"/bin/" + strconv.Itoa(5000): amd64}
	for i := range 1000 {
		files["/bin/"+strconv.Itoa(i)] = arm64
	}
	if err := Check(t.Context(), Image{Platform: platform(t, "linux/arm64")}, files); err == nil {
		t.Error("the newest file was not read")
	}
}

// asked is a tree that notes what it is asked for.
type asked struct {
	tree
	mu    *sync.Mutex
	names map[string]int
}

func (a asked) note(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names[name]++
}

func (a asked) Head(ctx context.Context, name string, n int) ([]byte, error) {
	a.note("head " + name)
	return a.tree.Head(ctx, name, n)
}

func (a asked) List(ctx context.Context, dir string) ([]File, error) {
	a.note("list " + dir)
	return a.tree.List(ctx, dir)
}

// Each question is a request to a node, and a line in its log when the folder is
// not there.
func TestFoldersThatCannotBeThereAreNotAskedFor(t *testing.T) {
	files := asked{tree{"/hello": arm64}, &sync.Mutex{}, map[string]int{}}
	img := Image{Platform: platform(t, "linux/arm64"), Entrypoint: []string{"/hello"}, Cmd: []string{"hello"}}
	if err := Check(t.Context(), img, files); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(map[string]int{"list /": 1, "head /hello": 1}, files.names); diff != "" {
		t.Error(diff)
	}
}

type broken struct{ tree }

func (broken) List(context.Context, string) ([]File, error) { return nil, errors.New("no such image") }

func TestImageThatCannotBeLookedAtIsAnError(t *testing.T) {
	if err := Check(t.Context(), Image{Platform: platform(t, "linux/arm64")}, broken{}); err == nil {
		t.Error("no error")
	}
}

func FuzzHeader(f *testing.F) {
	for _, b := range [][]byte{amd64, peOf(0x8664), fat(7, 12), script, nil, []byte("MZ"), fat()} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, ok := readHeader(b); ok && len(h.architectures) == 0 && h.format != machO {
			t.Errorf("%+v", h)
		}
	})
}
