package layout

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// engineSaved is what an engine with containerd saves of two images, one of them
// under two names, and of what refers to them. Its manifest.json is in another
// order than index.json.
func engineSaved(t *testing.T) (d *DockerArchive, list, single oci.Descriptor, config map[string]digest.Digest) {
	t.Helper()
	f := newFiles()
	a, b, c := f.image("a"), f.image("b"), f.image("c")
	config = map[string]digest.Digest{}
	for name, m := range map[string]oci.Descriptor{"a": a, "b": b, "c": c} {
		v, err := oci.ParseManifest(oci.NewBlob(m.MediaType, f["blobs/sha256/"+m.Digest.Encoded()]))
		if err != nil {
			t.Fatal(err)
		}
		config[name] = v.Config.Digest
	}
	list = f.blob(oci.MediaTypeIndex, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s,%s]}`, oci.MediaTypeIndex, entry(a, ""), entry(b, "")))
	older := f.blob(oci.MediaTypeManifest, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":%s,"layers":[],"subject":%s}`,
		oci.MediaTypeManifest, entry(f.blob(oci.MediaTypeConfig, []byte(`{}`)), ""), entry(a, "")))
	name := func(full, tag string) string {
		return fmt.Sprintf(`,"annotations":{"io.containerd.image.name":%q,"org.opencontainers.image.ref.name":%q}`, full, tag)
	}
	f.index(entry(list, name("docker.io/library/app:1", "1")), entry(list, name("r.example:5000/app:1", "1")), entry(c, ""),
		entry(older, fmt.Sprintf(`,"annotations":{"io.containerd.manifest.subject":%q}`, a.Digest)))
	f["manifest.json"] = fmt.Appendf(nil, `[{"Config":"blobs/sha256/%s","RepoTags":null,"Layers":[]},{"Config":"blobs/sha256/%s","RepoTags":["app:1","r.example:5000/app:1"],"Layers":[]}]`,
		config["c"].Encoded(), config["a"].Encoded())
	d, err := OpenDockerArchive(write(t, f.tarBytes("")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d, list, c, config
}

func TestImagesOfAnEngineWithContainerdAreFound(t *testing.T) {
	d, list, single, config := engineSaved(t)
	id := list.Digest.Encoded()
	for name, want := range map[string]digest.Digest{
		"app:1": list.Digest, "docker.io/library/app:1": list.Digest, "r.example:5000/app:1": list.Digest, "1": list.Digest,
		"@0": single.Digest, "@1": list.Digest,
		"sha256:" + id: list.Digest, id: list.Digest, id[:12]: list.Digest, "sha256:" + id[:12]: list.Digest,
		config["c"].String(): single.Digest, config["c"].Encoded(): single.Digest, config["c"].Encoded()[:12]: single.Digest,
	} {
		if b, err := d.Resolve(t.Context(), name); err != nil || b.Digest != want {
			t.Errorf("%s: %s, %v; want %s", name, b.Digest, err, want)
		}
	}
	b, err := d.Resolve(t.Context(), config["b"].String())
	if m, bad := oci.ParseManifest(b); err != nil || bad != nil || m.Config.Digest != config["b"] {
		t.Errorf("the config of one platform: %v, %v", err, bad)
	}
	for name, ambiguous := range map[string]bool{"": true, "@2": false, "@-1": false, "@": false, "app": false, "app:2": false, id[:3]: false, "0000": false} {
		var e *TagError
		if _, err := d.Resolve(t.Context(), name); !errors.As(err, &e) || e.Ambiguous != ambiguous || len(e.Have) != 3 {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := d.Resolve(t.Context(), digest.FromString("none").String()); !Absent(err) {
		t.Errorf("an ID that is not there: %v", err)
	}
}

// They are asked for when a copy takes referrers along.
func TestReferrersOfASavedImage(t *testing.T) {
	d, list, _, _ := engineSaved(t)
	root, err := oci.ParseIndex(mustFetch(t, d, list))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []int{1, 0} {
		got, err := d.Referrers(t.Context(), root.Manifests[i].Digest)
		if err != nil || len(got) != want {
			t.Errorf("%d: %v, %v", i, got, err)
		}
	}
	if got, err := legacy().open(t).Referrers(t.Context(), list.Digest); len(got) > 0 || err != nil {
		t.Errorf("of an engine that has none: %v, %v", got, err)
	}
}

func mustFetch(t *testing.T, d *DockerArchive, want oci.Descriptor) oci.Blob {
	t.Helper()
	b, err := d.FetchManifest(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Without manifest.json the place is that in index.json.
func TestPlaceOfAnImageWithoutManifestJSON(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	d, err := OpenDockerArchive(write(t, f.index(tagged(a, "x"), tagged(a, "y"), tagged(b, "z")).tarBytes("")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for name, want := range map[string]digest.Digest{"@0": a.Digest, "@1": b.Digest, "@2": ""} {
		if got, err := d.Resolve(t.Context(), name); got.Digest != want || (err == nil) != (want != "") {
			t.Errorf("%s: %s, %v", name, got.Digest, err)
		}
	}
}

// counting counts how often each file of a store is opened.
type counting struct {
	store
	opened map[string]int
}

func (c *counting) open(name string) (file, error) {
	c.opened[name]++
	return c.store.open(name)
}

// TestManifestsOfASavedImageAreReadOnce: indexes that list one child many times
// would be as many readings to the power of their depth.
func TestManifestsOfASavedImageAreReadOnce(t *testing.T) {
	f := newFiles()
	child := f.image("a")
	layer := f.blob("application/vnd.buildkit.cacheconfig.v0", []byte(`{"not":"a manifest"}`))
	for range oci.MaxDepth {
		list := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%[2]s,%[2]s,%[2]s,%s]}`, oci.MediaTypeIndex, entry(child, ""), entry(layer, ""))
		child = f.blob(oci.MediaTypeIndex, list)
	}
	f["manifest.json"] = []byte(`[{"Config":"blobs/sha256/ffff","RepoTags":null,"Layers":[]}]`)
	d, err := OpenDockerArchive(write(t, f.index(entry(child, "")).tarBytes("")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"ffff", "@0"} {
		c := &counting{store: d.layout.store, opened: map[string]int{}}
		d.layout.store = c
		var e *TagError
		if _, err := d.Resolve(t.Context(), name); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
		}
		for file, n := range c.opened {
			if n > 1 || strings.HasSuffix(file, layer.Digest.Encoded()) {
				t.Errorf("%s: %s was read %d times", name, file, n)
			}
		}
		if want := oci.MaxDepth + 2; len(c.opened) != want {
			t.Errorf("%s: %d files were read, want %d", name, len(c.opened), want)
		}
		d.layout.store = c.store
	}
}
