package layout

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func TestResolveFindsImagesByNameByDigestAndTheOnlyOne(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	f.index(
		tagged(a, "1.0"),
		entry(b, `,"annotations":{"org.opencontainers.image.ref.name":"2.0","io.containerd.image.name":"docker.io/library/app:2.0"}`),
		tagged(a, "latest"), tagged(a, "twice"), tagged(b, "twice"),
	)
	eachKind(t, f, func(t *testing.T, l *Layout) {
		for tag, want := range map[string]digest.Digest{
			"1.0": a.Digest, "latest": a.Digest, "2.0": b.Digest, "docker.io/library/app:2.0": b.Digest, string(b.Digest): b.Digest,
		} {
			got, err := l.Resolve(t.Context(), tag)
			if err != nil || got.Digest != want || got.MediaType != oci.MediaTypeManifest || digest.FromBytes(got.Bytes) != want {
				t.Errorf("Resolve(%q) = %+v, %v; want %s", tag, got.Descriptor, err, want)
			}
		}
		have := []string{"1.0", "2.0", "docker.io/library/app:2.0", "latest", "twice"}
		for _, want := range []TagError{{Tag: "3.0", Have: have}, {Tag: "twice", Ambiguous: true, Have: have}, {Ambiguous: true, Have: have}} {
			want.Path = l.Path()
			_, err := l.Resolve(t.Context(), want.Tag)
			var got *TagError
			if !errors.As(err, &got) {
				t.Errorf("Resolve(%q): %v", want.Tag, err)
				continue
			}
			if diff := cmp.Diff(want, *got); diff != "" {
				t.Errorf("Resolve(%q) (-want +got):\n%s", want.Tag, diff)
			}
		}
	})
}

func TestResolveWithoutATag(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	for name, c := range map[string]struct {
		entries []string
		want    string // "index" for index.json itself, "a", or "" for an error
	}{
		"one, tagged":             {[]string{tagged(a, "x")}, "a"},
		"one, untagged":           {[]string{entry(a, "")}, "a"},
		"one under two tags":      {[]string{tagged(a, "x"), tagged(a, "y")}, "a"},
		"several untagged":        {[]string{entry(a, ""), entry(b, "")}, "index"},
		"several, one is tagged":  {[]string{tagged(a, "x"), entry(b, "")}, ""},
		"several, all are tagged": {[]string{tagged(a, "x"), tagged(b, "y")}, ""},
		"none":                    {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, f.index(c.entries...).dir(t))
			got, err := l.Resolve(t.Context(), "")
			want := map[string]digest.Digest{"a": a.Digest, "index": digest.FromBytes(f["index.json"])}[c.want]
			if got.Digest != want || (err == nil) != (c.want != "") {
				t.Fatalf("got %s, %v; want %s", got.Digest, err, want)
			}
			if c.want == "index" && (got.MediaType != oci.MediaTypeIndex || string(got.Bytes) != string(f["index.json"])) {
				t.Errorf("index.json came as %q:\n%s", got.MediaType, got.Bytes)
			}
		})
	}
}

// What stands beside an image in index.json: engines list what refers to it, with
// an annotation; oras lists whatever it stores; others list by tags.
func TestWhatRefersToAnImageIsNone(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	list := f.blob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+entry(a, "")+`,`+entry(b, "")+`]}`))
	signature := f.blob(oci.MediaTypeManifest, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeManifest+`","artifactType":"example/one","config":`+
		entry(f.blob("application/vnd.oci.empty.v1+json", []byte(`{}`)), "")+`,"layers":[],"subject":`+entry(a, "")+`}`))
	refers := entry(signature, fmt.Sprintf(`,"annotations":{"io.containerd.manifest.subject":%q}`, a.Digest))
	attests := entry(signature, fmt.Sprintf(`,"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":%q}`, a.Digest))
	fallback := "sha256-" + a.Digest.Encoded()
	for name, c := range map[string]struct {
		entries []string
		want    string // "index" for index.json itself, a name below, or "" for an error
	}{
		"saved by name":                       {[]string{tagged(list, "1"), refers}, "list"},
		"saved by ID":                         {[]string{entry(list, ""), refers}, "list"},
		"one platform":                        {[]string{refers, entry(a, "")}, "a"},
		"two images":                          {[]string{entry(a, ""), entry(b, ""), refers}, ""},
		"without the annotation":              {[]string{entry(a, ""), entry(signature, "")}, "a"},
		"everything that was stored":          {[]string{entry(a, ""), entry(b, ""), tagged(list, "latest"), entry(signature, "")}, "list"},
		"everything, without a name":          {[]string{entry(a, ""), entry(b, ""), entry(list, "")}, "list"},
		"listed by a tag":                     {[]string{tagged(a, "latest"), tagged(signature, fallback)}, "a"},
		"tags of cosign":                      {[]string{tagged(a, "1"), tagged(signature, fallback+".sig"), tagged(b, fallback+".att")}, "a"},
		"another tag":                         {[]string{tagged(a, "1"), tagged(signature, fallback+".old")}, ""},
		"nothing else":                        {[]string{tagged(signature, fallback)}, "signature"},
		"index.json with an attestation":      {[]string{entry(a, ""), entry(b, ""), attests}, "index"},
		"a signature that somebody has named": {[]string{tagged(a, "1"), tagged(signature, "mine")}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t, f.index(c.entries...).dir(t))
			got, err := l.Resolve(t.Context(), "")
			want := map[string]digest.Digest{"a": a.Digest, "list": list.Digest, "signature": signature.Digest, "index": digest.FromBytes(f["index.json"])}[c.want]
			if got.Digest != want || (err == nil) != (c.want != "") {
				t.Errorf("got %s, %v; want %s", got.Digest, err, want)
			}
		})
	}
	l := open(t, f.index(tagged(a, "latest"), tagged(b, "1"), tagged(signature, fallback)).dir(t))
	var e *TagError
	if _, err := l.Resolve(t.Context(), ""); !errors.As(err, &e) || !cmp.Equal(e.Have, []string{"latest", "1"}) {
		t.Errorf("%v", err)
	}
	if got, err := l.Resolve(t.Context(), fallback); err != nil || got.Digest != signature.Digest {
		t.Errorf("by its name: %v", err)
	}
}

// TestReferrersAreDescribed by their manifests: oras lists what it stores without
// an artifact type.
func TestReferrersAreDescribed(t *testing.T) {
	f := newFiles()
	a := f.image("a")
	signature := f.blob(oci.MediaTypeManifest, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeManifest+`","artifactType":"example/one","config":`+
		entry(f.blob("application/vnd.oci.empty.v1+json", []byte(`{}`)), "")+`,"layers":[],"subject":`+entry(a, "")+`,"annotations":{"signed":"by me"}}`))
	eachKind(t, f.index(tagged(a, "1"), entry(signature, "")), func(t *testing.T, l *Layout) {
		want := signature
		want.ArtifactType, want.Annotations = "example/one", map[string]string{"signed": "by me"}
		got, err := l.Referrers(t.Context(), a.Digest)
		if diff := cmp.Diff([]oci.Descriptor{want}, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestImagesAreInTheOrderOfIndexJSON(t *testing.T) {
	f := newFiles()
	a, b := f.image("a"), f.image("b")
	eachKind(t, f.index(tagged(b, "2"), entry(a, "")), func(t *testing.T, l *Layout) {
		got, err := l.Images(t.Context())
		if err != nil || len(got) != 2 || got[0].Digest != b.Digest || got[1].Digest != a.Digest {
			t.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff([]string{"2"}, Tags(got[0])); diff != "" || Tags(got[1]) != nil {
			t.Errorf("tags: %v, %v", Tags(got[0]), Tags(got[1]))
		}
	})
}

func TestBlobsAreCheckedAgainstDigestAndSize(t *testing.T) {
	f := newFiles()
	good := f.blob("x/y", []byte("content"))
	empty := f.blob("x/y", nil)
	rotten := f.blob("x/y", []byte("as pushed"))
	f["blobs/sha256/"+rotten.Digest.Encoded()] = []byte("as kept  ")
	long := oci.Descriptor{MediaType: "x/y", Digest: digest.SHA512.FromString("content"), Size: 7}
	f["blobs/sha512/"+long.Digest.Encoded()] = []byte("content")
	eachKind(t, f.index(), func(t *testing.T, l *Layout) {
		for _, d := range []oci.Descriptor{good, empty, long, {Digest: good.Digest}} {
			r, err := l.OpenBlob(t.Context(), d)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := readAll(r); err != nil || d.Digest.Algorithm().FromBytes(b) != d.Digest {
				t.Errorf("%s: %q, %v", d.Digest, b, err)
			}
			if ok, err := l.StatBlob(t.Context(), d); !ok || err != nil {
				t.Errorf("StatBlob(%s) = %v, %v", d.Digest, ok, err)
			}
		}
		var m *oci.MismatchError
		r, err := l.OpenBlob(t.Context(), rotten)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := readAll(r); !errors.As(err, &m) || m.What != "digest" || len(b) != 9 {
			t.Errorf("rotten blob: %q, %v", b, err)
		}
		cut := oci.Descriptor{Digest: good.Digest, Size: 8}
		if _, err := l.OpenBlob(t.Context(), cut); !errors.As(err, &m) || m.What != "size" {
			t.Errorf("OpenBlob of another size: %v", err)
		}
		if ok, err := l.StatBlob(t.Context(), cut); !ok || !errors.As(err, &m) {
			t.Errorf("StatBlob of another size: %v, %v", ok, err)
		}
		if _, err := l.FetchManifest(t.Context(), rotten); !errors.As(err, &m) {
			t.Errorf("FetchManifest of a rotten blob: %v", err)
		}
	})
}

// A layout that was saved for one platform names what it lacks.
func TestContentThatIsNotThereIsNamed(t *testing.T) {
	f := newFiles()
	gone := oci.NewBlob(oci.MediaTypeManifest, []byte("gone")).Descriptor
	eachKind(t, f.index(tagged(gone, "1")), func(t *testing.T, l *Layout) {
		_, fetch := l.FetchManifest(t.Context(), gone)
		_, blob := l.OpenBlob(t.Context(), gone)
		_, resolve := l.Resolve(t.Context(), "1")
		for what, err := range map[string]error{"FetchManifest": fetch, "OpenBlob": blob, "Resolve": resolve} {
			var m *MissingError
			if !errors.As(err, &m) || m.Digest != gone.Digest || m.Path != l.Path() || !Absent(err) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if ok, err := l.StatBlob(t.Context(), gone); ok || err != nil {
			t.Errorf("StatBlob: %v, %v", ok, err)
		}
	})
}

// A digest is foreign input and becomes a file name.
func TestDigestsDoNotLeaveTheLayout(t *testing.T) {
	f := newFiles().index()
	eachKind(t, f, func(t *testing.T, l *Layout) {
		for _, d := range []digest.Digest{"", "sha256:../../index.json", "sha256:..", "../x:abc", "sha256:" + digest.Digest(strings.Repeat("A", 64)), "md5:d41d8cd98f00b204e9800998ecf8427e"} {
			if _, err := l.OpenBlob(t.Context(), oci.Descriptor{Digest: d}); err == nil || Absent(err) {
				t.Errorf("OpenBlob(%q): %v, want a refusal", d, err)
			}
		}
	})
}

func TestLinksDoNotLeaveTheLayout(t *testing.T) {
	f := newFiles()
	d := f.blob("x/y", []byte("secret"))
	dir := f.index().dir(t)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	blob := filepath.Join(dir, "blobs", "sha256", d.Digest.Encoded())
	if err := os.Remove(blob); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, blob); err != nil {
		t.Skip(err)
	}
	if _, err := open(t, dir).OpenBlob(t.Context(), d); err == nil || Absent(err) {
		t.Errorf("a link out of the layout is followed: %v", err)
	}
}

func TestADirectoryInPlaceOfABlobIsRefused(t *testing.T) {
	f := newFiles()
	d := oci.NewBlob("x/y", []byte("x")).Descriptor
	f["blobs/sha256/"+d.Digest.Encoded()+"/x"] = []byte("x")
	if _, err := open(t, f.index().dir(t)).OpenBlob(t.Context(), d); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("%v", err)
	}
}

func TestFetchManifestReadsTheMediaTypeOnlyWhenItIsNotGiven(t *testing.T) {
	f := newFiles()
	a := f.image("a")
	big := f.blob(oci.MediaTypeManifest, make([]byte, oci.MaxManifestSize+1))
	text := f.blob("", []byte("no manifest"))
	l := open(t, f.index().dir(t))
	for _, mediaType := range []string{"", oci.MediaTypeManifest, oci.MediaTypeDockerManifest} {
		want := mediaType
		if want == "" {
			want = oci.MediaTypeManifest
		}
		b, err := l.FetchManifest(t.Context(), oci.Descriptor{MediaType: mediaType, Digest: a.Digest})
		if err != nil || b.MediaType != want || b.Size != a.Size || b.Digest != a.Digest {
			t.Errorf("asked for %q: %+v, %v", mediaType, b.Descriptor, err)
		}
	}
	if _, err := l.FetchManifest(t.Context(), big); err == nil || !strings.Contains(err.Error(), "4194304") {
		t.Errorf("over the limit: %v", err)
	}
	var s *oci.SyntaxError
	if _, err := l.FetchManifest(t.Context(), text); !errors.As(err, &s) {
		t.Errorf("no manifest: %v", err)
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	plain := newFiles().index()
	with := func(name, content string) files {
		f := newFiles().index()
		f[name] = []byte(content)
		return f
	}
	without := func(name string) files {
		f := newFiles().index()
		delete(f, name)
		return f
	}
	tarOf := func(f files) string { return write(t, f.tarBytes("")) }
	whole := plain.tarBytes("")
	twice := append(whole[:len(whole)-1024:len(whole)-1024], whole...)
	for name, c := range map[string]struct{ path, reason string }{
		"nothing":                  {filepath.Join(t.TempDir(), "none"), "no such file"},
		"no oci-layout":            {without("oci-layout").dir(t), "not an image layout: oci-layout is missing"},
		"no oci-layout in archive": {tarOf(without("oci-layout")), "not an image layout: oci-layout is missing"},
		"oci-layout of a future":   {with("oci-layout", `{"imageLayoutVersion":"2.0.0"}`).dir(t), `version "2.0.0", want "1.0.0"`},
		"oci-layout is no JSON":    {with("oci-layout", `1.0.0`).dir(t), "not JSON"},
		"oci-layout is huge":       {with("oci-layout", strings.Repeat(" ", 1<<17)).dir(t), "more than"},
		"gzip":                     {write(t, []byte("\x1f\x8b\x08\x00rest")), "compressed with gzip: decompress it first"},
		"zstd":                     {write(t, []byte("\x28\xb5\x2f\xfdrest")), "compressed with zstd"},
		"xz":                       {write(t, []byte("\xfd7zXZ\x00rest")), "compressed with xz"},
		"empty file":               {write(t, nil), "archive is empty"},
		"text":                     {write(t, []byte(strings.Repeat("hello world ", 100))), "not a tar archive"},
		"cut in a member":          {write(t, whole[:len(whole)-1024-100]), "cut short"},
		"cut in a header":          {write(t, whole[:700+512]), "cut short"},
		"cut between members":      {write(t, whole[:len(whole)-1024]), "cut short"},
		"index.json twice":         {write(t, twice), "is in the archive twice"},
	} {
		l, err := Open(c.path)
		if err == nil {
			_ = l.Close()
		}
		var e *Error
		if !errors.As(err, &e) || e.Path != c.path || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", name, err, c.reason)
		}
		if strings.Count(err.Error(), c.path) > 1 {
			t.Errorf("%s: says the path twice: %v", name, err)
		}
	}
}

func TestAnIndexJSONThatIsReadTwoWaysIsRefused(t *testing.T) {
	f := newFiles()
	f["index.json"] = []byte(`{"schemaVersion":2,"manifests":[],"manifests":[]}`)
	eachKind(t, f, func(t *testing.T, l *Layout) {
		var s *oci.SyntaxError
		if _, err := l.Resolve(t.Context(), ""); !errors.As(err, &s) || !strings.Contains(err.Error(), "index.json") {
			t.Errorf("%v", err)
		}
	})
	delete(f, "index.json")
	if _, err := open(t, f.dir(t)).Images(t.Context()); err == nil || !strings.Contains(err.Error(), "index.json is missing") {
		t.Errorf("no index.json: %v", err)
	}
}
