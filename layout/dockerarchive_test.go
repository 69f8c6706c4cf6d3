package layout

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// plainLayer is a tar with one file.
func plainLayer(text string) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	_ = w.WriteHeader(&tar.Header{Name: "file", Mode: 0o644, Size: int64(len(text)), Format: tar.FormatUSTAR})
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

func configOf(architecture string, layers ...[]byte) []byte {
	var diffs []string
	for _, l := range layers {
		diffs = append(diffs, fmt.Sprintf("%q", digest.FromBytes(l)))
	}
	return fmt.Appendf(nil, `{"architecture":%q,"os":"linux","rootfs":{"type":"layers","diff_ids":[%s]}}`, architecture, strings.Join(diffs, ","))
}

// saved writes archives as engines do: members in the order given, and links.
type saved struct {
	bytes.Buffer
	w *tar.Writer
}

func newSaved() *saved {
	s := &saved{}
	s.w = tar.NewWriter(s)
	return s
}

func (s *saved) add(name string, b []byte) *saved {
	_ = s.w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b)), Typeflag: tar.TypeReg})
	_, _ = s.w.Write(b)
	return s
}

func (s *saved) link(name, to string) *saved {
	_ = s.w.WriteHeader(&tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink})
	return s
}

func (s *saved) open(t *testing.T) *DockerArchive {
	t.Helper()
	_ = s.w.Close()
	d, err := OpenDockerArchive(write(t, s.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func (s *saved) refused(t *testing.T, reason string) {
	t.Helper()
	_ = s.w.Close()
	d, err := OpenDockerArchive(write(t, s.Bytes()))
	if err == nil {
		_, err = d.Resolve(t.Context(), "")
		_ = d.Close()
	}
	if err == nil || !strings.Contains(err.Error(), reason) {
		t.Errorf("%v, want %q", err, reason)
	}
}

var shared, own = plainLayer("shared\n"), plainLayer("own\n")

// legacy is what engines before 25 write: two images that share a layer, which
// the second one links to.
func legacy() *saved {
	return newSaved().
		add("a1/layer.tar", shared).add("a2/layer.tar", own).add("c1.json", configOf("amd64", shared, own)).
		link("b1/layer.tar", "../a1/layer.tar").add("c2.json", configOf("arm64", shared)).
		add("manifest.json", []byte(`[{"Config":"c1.json","RepoTags":["app:1","r.example:5000/app:1"],"Layers":["a1/layer.tar","a2/layer.tar"]},`+
			`{"Config":"c2.json","RepoTags":["app:arm64"],"Layers":["b1/layer.tar"]}]`))
}

// modern is the same first image as engines from 25 on write it.
func modern() *saved {
	c := configOf("amd64", shared, own)
	blob := func(b []byte) string { return "blobs/sha256/" + digest.FromBytes(b).Encoded() }
	layer := func(b []byte) string {
		return fmt.Sprintf(`{"mediaType":"application/vnd.oci.image.layer.v1.tar","size":%d,"digest":%q}`, len(b), digest.FromBytes(b))
	}
	m := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[%s,%s]}`,
		oci.MediaTypeManifest, oci.MediaTypeConfig, digest.FromBytes(c), len(c), layer(shared), layer(own))
	return newSaved().add(blob(shared), shared).add(blob(own), own).add(blob(c), c).add(blob(m), m).
		add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`)).
		add("index.json", fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"annotations":{"io.containerd.image.name":"docker.io/library/app:1","org.opencontainers.image.ref.name":"1"}}]}`,
			oci.MediaTypeManifest, digest.FromBytes(m), len(m))).
		add("manifest.json", fmt.Appendf(nil, `[{"Config":%q,"RepoTags":["app:1"],"Layers":[%q,%q],"LayerSources":{%q:%s,%q:%s}}]`,
			blob(c), blob(shared), blob(own), digest.FromBytes(shared), layer(shared), digest.FromBytes(own), layer(own)))
}

// The bytes are an interface: they are those of an engine's push, which
// TestDigestIsWhatDockerPushSends compares with a real one.
func TestManifestOfASavedImageIsTheOneThatDockerPushes(t *testing.T) {
	const want = `{
   "schemaVersion": 2,
   "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
   "config": {
      "mediaType": "application/vnd.docker.container.image.v1+json",
      "size": 225,
      "digest": "%s"
   },
   "layers": [
      {
         "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
         "size": %d,
         "digest": "%s"
      },
      {
         "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
         "size": %d,
         "digest": "%s"
      }
   ]
}`
	text := fmt.Sprintf(want, digest.FromBytes(configOf("amd64", shared, own)),
		len(gzipped(shared)), digest.FromBytes(gzipped(shared)), len(gzipped(own)), digest.FromBytes(gzipped(own)))
	for form, s := range map[string]*saved{"before 25": legacy(), "from 25 on": modern()} {
		b, err := s.open(t).Resolve(t.Context(), "app:1")
		if err != nil {
			t.Fatal(form, err)
		}
		if diff := cmp.Diff(text, string(b.Bytes)); diff != "" || b.MediaType != oci.MediaTypeDockerManifest {
			t.Errorf("%s: %s (-want +got):\n%s", form, b.MediaType, diff)
		}
	}
}

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b)
	_ = w.Close()
	return out.Bytes()
}

// As when a plan is carried out by another run than the one that made it.
func TestBlobsOfASavedImageAreFoundWithoutResolving(t *testing.T) {
	b, err := legacy().open(t).Resolve(t.Context(), "app:arm64")
	if err != nil {
		t.Fatal(err)
	}
	refs, err := oci.References(b)
	if err != nil {
		t.Fatal(err)
	}
	d := legacy().open(t)
	for i, want := range [][]byte{configOf("arm64", shared), gzipped(shared)} {
		rc, err := d.OpenBlob(t.Context(), refs[i])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(rc); err != nil || !bytes.Equal(got, want) {
			t.Errorf("blob %d: %d bytes, %v", i, len(got), err)
		}
		if ok, err := d.StatBlob(t.Context(), refs[i]); !ok || err != nil {
			t.Errorf("StatBlob: %v, %v", ok, err)
		}
	}
	if got, err := d.FetchManifest(t.Context(), b.Descriptor); err != nil || !bytes.Equal(got.Bytes, b.Bytes) {
		t.Errorf("FetchManifest: %v", err)
	}
	gone := oci.NewBlob("x/y", []byte("gone")).Descriptor
	if _, err := d.OpenBlob(t.Context(), gone); !Absent(err) {
		t.Errorf("OpenBlob of what is not there: %v", err)
	}
	if _, err := d.FetchManifest(t.Context(), gone); !Absent(err) {
		t.Errorf("FetchManifest of what is not there: %v", err)
	}
	if ok, err := d.StatBlob(t.Context(), gone); ok || err != nil {
		t.Errorf("StatBlob of what is not there: %v, %v", ok, err)
	}
}

func TestSavedImagesAreFoundByAnyNameThatDockerKnows(t *testing.T) {
	d := legacy().open(t)
	amd64, arm64 := digest.FromBytes(configOf("amd64", shared, own)), digest.FromBytes(configOf("arm64", shared))
	for name, config := range map[string]digest.Digest{
		"app:1": amd64, "docker.io/library/app:1": amd64, "r.example:5000/app:1": amd64, "@0": amd64, "@1": arm64, "app:arm64": arm64,
	} {
		b, err := d.Resolve(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m, err := oci.ParseManifest(b); err != nil || m.Config.Digest != config {
			t.Errorf("%s: config %s, %v", name, m.Config.Digest, err)
		}
	}
	for name, ambiguous := range map[string]bool{"": true, "app": false, "app:2": false, "@2": false, "@x": false} {
		var e *TagError
		if _, err := d.Resolve(t.Context(), name); !errors.As(err, &e) || e.Ambiguous != ambiguous || len(e.Have) != 3 {
			t.Errorf("%q: %v", name, err)
		}
	}
	id := digest.FromBytes(configOf("amd64", shared, own))
	for _, name := range []string{id.String(), id.Encoded(), id.Encoded()[:12], "sha256:" + id.Encoded()[:4]} {
		if _, err := modern().open(t).Resolve(t.Context(), name); err != nil {
			t.Errorf("by ID: %v", err)
		}
	}
	if _, err := modern().open(t).Resolve(t.Context(), id.Encoded()[1:]); !Absent(err) {
		t.Errorf("by the end of an ID: %v", err)
	}
}

// An engine that loads such an archive unpacks the layers, too.
func TestCompressedLayersAreUnpackedFirst(t *testing.T) {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := legacy().open(t).Resolve(t.Context(), "@1")
	if err != nil {
		t.Fatal(err)
	}
	for name, layer := range map[string][]byte{"gzip": gzipped(shared), "zstd": z.EncodeAll(shared, nil)} {
		d := newSaved().add("l", layer).add("c.json", configOf("arm64", shared)).add("manifest.json", []byte(`[{"Config":"c.json","RepoTags":null,"Layers":["l"]}]`)).open(t)
		if b, err := d.Resolve(t.Context(), ""); err != nil || b.Digest != plain.Digest {
			t.Errorf("%s: %s, %v; want %s", name, b.Digest, err, plain.Digest)
		}
	}
}

// Of an engine that keeps images in containerd, and of BuildKit: the archive
// has the manifest that is pushed, a list of several platforms among them.
func TestManifestsOfAContainerdStoreAreReadAsTheyAre(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	list := f.blob(oci.MediaTypeIndex, fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s,%s]}`, oci.MediaTypeIndex, entry(a, ""), entry(b, "")))
	f.index(entry(list, `,"annotations":{"io.containerd.image.name":"docker.io/library/app:1","org.opencontainers.image.ref.name":"1"}`))
	f["manifest.json"] = []byte(`[{"Config":"blobs/sha256/x","RepoTags":["app:1"],"Layers":[]}]`)
	d, err := OpenDockerArchive(write(t, f.tarBytes("")))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, name := range []string{"", "app:1", "1", "docker.io/library/app:1"} {
		if got, err := d.Resolve(t.Context(), name); err != nil || got.Digest != list.Digest {
			t.Errorf("%q: %s, %v", name, got.Digest, err)
		}
	}
	if got, err := d.FetchManifest(t.Context(), b); err != nil || got.Digest != b.Digest {
		t.Errorf("%v", err)
	}
}

func TestBrokenArchivesOfDockerSaveAreRefused(t *testing.T) {
	const one = `[{"Config":"c.json","RepoTags":["app:1"],"Layers":["l"]}]`
	c := configOf("amd64", shared)
	newSaved().add("l", own).add("c.json", c).add("manifest.json", []byte(one)).refused(t, "digest of the plain layer is "+digest.FromBytes(own).String())
	newSaved().add("c.json", c).add("manifest.json", []byte(one)).refused(t, "l: is named in manifest.json and is not in the archive")
	newSaved().add("l", shared).add("manifest.json", []byte(one)).refused(t, "c.json: is named in manifest.json")
	newSaved().add("l", shared).add("c.json", configOf("amd64", shared, own)).add("manifest.json", []byte(one)).refused(t, "speaks of 2 layers, manifest.json of 1")
	newSaved().add("l", shared).add("c.json", []byte(`{"rootfs":{"diff_ids":["md5:x"]}}`)).add("manifest.json", []byte(one)).refused(t, `diff_id "md5:x"`)
	newSaved().add("repositories", []byte(`{}`)).refused(t, "manifest.json is missing")
	newSaved().add("manifest.json", []byte(one)).add("manifest.json", []byte(one)).refused(t, "manifest.json: is in the archive twice")
	newSaved().add("manifest.json", []byte(`[{"Config":"a","Config":"b"}]`)).refused(t, "manifest.json: ")
	newSaved().add("c.json", c).link("l", "l2").link("l2", "l").add("manifest.json", []byte(one)).refused(t, "l: is named in manifest.json")
	newSaved().add("c.json", c).add("l", []byte("\xfd7zXZ\x00rest")).add("manifest.json", []byte(one)).refused(t, "l: is compressed in a way")
	newSaved().add("c.json", c).add("l", gzipped(shared)[:20]).add("manifest.json", []byte(one)).refused(t, "l: unexpected EOF")
	newSaved().add("manifest.json", []byte(`[]`)).refused(t, "has no image")

	whole := legacy()
	_ = whole.w.Close()
	if _, err := OpenDockerArchive(write(t, whole.Bytes()[:whole.Len()-1300])); err == nil || !strings.Contains(err.Error(), "cut short") {
		t.Errorf("cut short: %v", err)
	}
	if _, err := OpenDockerArchive(write(t, gzipped(whole.Bytes()))); err == nil || !strings.Contains(err.Error(), "compressed with gzip") {
		t.Errorf("compressed: %v", err)
	}
}

// FuzzDockerArchive: whatever is in an archive, it is opened or refused, and its
// configs are those that it holds.
func FuzzDockerArchive(f *testing.F) {
	for _, s := range []*saved{legacy(), modern()} {
		_ = s.w.Close()
		f.Add(s.Bytes())
	}
	path := filepath.Join(f.TempDir(), "image.tar")
	f.Fuzz(func(t *testing.T, b []byte) {
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := OpenDockerArchive(path)
		if err != nil {
			return
		}
		defer d.Close()
		for i, item := range d.images {
			d.find(fmt.Sprintf("@%d", i))
			c, diffs, err := d.config(item)
			if err != nil {
				continue
			}
			if !bytes.Contains(b, []byte(item.Config)) || c.Size > int64(len(b)) || len(diffs) != len(item.Layers) {
				t.Fatalf("%+v is not in the archive", c)
			}
		}
	})
}
