package dockermanifest_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/dockermanifest"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

func name(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r.OrLatest()
}

func entry(t *testing.T, source string, o registrytest.ImageOptions) dockermanifest.Entry {
	t.Helper()
	img := registrytest.Image(t, "linux/amd64", o)
	d := img.Root.Descriptor
	d.Platform = img.Platform
	return dockermanifest.Entry{Ref: name(t, source), Descriptor: d, Raw: img.Root.Bytes, View: img.Root.Bytes}
}

// The names of files and members are Docker's, and there is nothing in a list's
// directory but entries: Docker reads every file there.
func TestAnEntryIsWhereAndWhatDockerWrites(t *testing.T) {
	s := dockermanifest.Store{Dir: filepath.Join(t.TempDir(), "manifests")}
	if err := s.Save(name(t, "r.example:5000/team/app"), entry(t, "r.example:5000/team/src:a", registrytest.ImageOptions{})); err != nil {
		t.Fatal(err)
	}
	var found []string
	err := filepath.WalkDir(s.Dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.Dir, path)
		info, _ := d.Info()
		found = append(found, rel+" "+info.Mode().String())
		return err
	})
	want := []string{
		". drwxr-xr-x", "r.example-5000_team_app-latest drwxr-xr-x",
		"r.example-5000_team_app-latest/r.example-5000_team_src-a -rw-r--r--",
	}
	if diff := cmp.Diff(want, found); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	b, err := os.ReadFile(filepath.Join(s.Dir, "r.example-5000_team_app-latest", "r.example-5000_team_src-a"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	var names []string
	for k := range doc {
		names = append(names, k)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"Descriptor", "List", "OCIManifest", "Raw", "Ref"}, names); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
	if !strings.HasPrefix(string(b), `{"Ref":"r.example:5000/team/src:a","Descriptor":{"mediaType":"`) {
		t.Errorf("begins with %.80s", b)
	}
}

func TestListsAndSourcesThatShareANameInTheFileSystemAreKeptApart(t *testing.T) {
	s := dockermanifest.Store{Dir: t.TempDir()}
	first, second := name(t, "r/foo:a-b"), name(t, "r/foo-a:b")
	for _, list := range []ref.Reference{first, second} {
		for _, source := range []string{"r/x:y-z", "r/x-y:z"} {
			if err := s.Save(list, entry(t, source, registrytest.ImageOptions{Text: list.String() + source})); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, list := range []ref.Reference{first, second} {
		for _, source := range []string{"r/x:y-z", "r/x-y:z"} {
			e, err := s.Entry(list, name(t, source))
			want := entry(t, source, registrytest.ImageOptions{Text: list.String() + source})
			if err != nil || e.Descriptor.Digest != want.Descriptor.Digest {
				t.Errorf("%s in %s: %s, %v", source, list, e.Descriptor.Digest, err)
			}
		}
	}
	if err := s.Remove(first); err != nil {
		t.Fatal(err)
	}
	var none *dockermanifest.NotFoundError
	if _, err := s.Entries(first); !errors.As(err, &none) {
		t.Errorf("a removed list: %v", err)
	}
	if got, err := s.Entries(second); err != nil || len(got) != 2 {
		t.Errorf("the other list: %d entries, %v", len(got), err)
	}
}

func TestAnEntryThatIsSavedAgainKeepsItsFile(t *testing.T) {
	s := dockermanifest.Store{Dir: t.TempDir()}
	list := name(t, "r/l:1")
	for range 2 {
		for _, source := range []string{"r/x:y-z", "r/x-y:z"} {
			if err := s.Save(list, entry(t, source, registrytest.ImageOptions{})); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, err := s.Entries(list); err != nil || len(got) != 2 {
		t.Errorf("%d entries, %v", len(got), err)
	}
}

func TestAFileThatIsNoEntryIsNamed(t *testing.T) {
	for what, text := range map[string]string{
		"not JSON":       "x",
		"no reference":   `{"Descriptor":{"digest":"` + string(digest.FromString("")) + `"}}`,
		"no digest":      `{"Ref":"r/a:1","Descriptor":{"size":1}}`,
		"digest of junk": `{"Ref":"r/a:1","Descriptor":{"digest":"sha256:../../x"}}`,
		"twice":          `{"Ref":"r/a:1","Ref":"r/a:2","Descriptor":{"digest":"` + string(digest.FromString("x")) + `"}}`,
	} {
		s := dockermanifest.Store{Dir: t.TempDir()}
		dir := filepath.Join(s.Dir, "docker.io_library_l-latest")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, "a")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := s.Entries(name(t, "l"))
		var bad *dockermanifest.FileError
		if !errors.As(err, &bad) || bad.Path != file {
			t.Errorf("%s: %v", what, err)
		}
		if err := s.Remove(name(t, "l")); err != nil {
			t.Errorf("%s: cannot be removed: %v", what, err)
		}
	}
}

// What Docker 20.10 and those before 18.09 wrote.
func TestEntriesOfOlderDockersAreRead(t *testing.T) {
	d := digest.FromString("x")
	for what, c := range map[string]struct {
		text string
		want oci.Descriptor
	}{
		"20.10": {
			`{"Ref":"r/a:1","Descriptor":{"mediaType":"` + oci.MediaTypeDockerManifest + `","digest":"` + string(d) + `","size":7,"platform":{"architecture":"arm","os":"linux","variant":"v7"}},"SchemaV2Manifest":{"schemaVersion":2}}`,
			oci.Descriptor{MediaType: oci.MediaTypeDockerManifest, Digest: d, Size: 7, Platform: &oci.Platform{OS: "linux", Architecture: "arm", Variant: "v7"}},
		},
		"17.12": {
			`{"Ref":"r/a:1","Digest":"` + string(d) + `","SchemaV2Manifest":{"schemaVersion":2},"Platform":{"architecture":"arm","os":"linux","features":["sse4"]}}`,
			oci.Descriptor{Digest: d, Platform: &oci.Platform{OS: "linux", Architecture: "arm"}},
		},
	} {
		s := dockermanifest.Store{Dir: t.TempDir()}
		dir := filepath.Join(s.Dir, "r_l-1")
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "r_a-1"), []byte(c.text), 0o644)); err != nil {
			t.Fatal(err)
		}
		list := ref.Reference{Host: "r", Repository: "l", Tag: "1"}
		entries, err := s.Entries(list)
		if err != nil || len(entries) != 1 {
			t.Fatalf("%s: %v", what, err)
		}
		if diff := cmp.Diff(c.want, entries[0].Descriptor); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
}
