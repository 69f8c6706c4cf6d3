package spec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/spec"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

const sum = "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"

func at(t *testing.T, s string) ref.Location {
	t.Helper()
	l, err := ref.ParseLocation(s)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSpecOfManifestTool(t *testing.T) {
	got, err := spec.Parse([]byte(`
image: r.example/app:1.0
tags:
  - latest
  - 1.10
annotations: {k: v, n: 1}
manifests:
  - image: r.example/app:amd64
    platform: {architecture: amd64, os: linux}
  -
    image: oci:dir
    annotations: {note: x}
  - image: ` + sum + `
    platform: &win
      architecture: amd64
      os: windows
      osversion: 10.0.17763.1
      osfeatures: [win32k]
      variant: v1
  - {image: app, platform: {}}
  - {image: app:w, platform: *win}
`))
	if err != nil {
		t.Fatal(err)
	}
	win := &oci.Platform{Architecture: "amd64", OS: "windows", OSVersion: "10.0.17763.1", OSFeatures: []string{"win32k"}, Variant: "v1"}
	want := spec.Spec{
		Targets:     []ref.Reference{at(t, "r.example/app:1.0").Reference, at(t, "r.example/app:latest").Reference, at(t, "r.example/app:1.10").Reference},
		Annotations: map[string]string{"k": "v", "n": "1"},
		Inputs: []manifold.Input{
			{Location: at(t, "r.example/app:amd64"), Platform: &oci.Platform{Architecture: "amd64", OS: "linux"}},
			{Location: at(t, "oci:dir"), Annotations: map[string]string{"note": "x"}},
			{Digest: sum, Platform: win},
			{Location: at(t, "app")},
			{Location: at(t, "app:w"), Platform: win},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// manifest-tool reads osversion only, and passes over what it does not know.
func TestEverySpellingOfAPlatformIsRead(t *testing.T) {
	for _, version := range []string{"osversion", "osVersion", "os.version", "os_version", "os-version"} {
		for _, features := range []string{"osfeatures", "osFeatures", "os.features", "os_features", "os-features"} {
			got, err := spec.Parse([]byte("image: a\nmanifests: [{image: b, platform: {os: windows, architecture: amd64, " + version + ": '1.2', " + features + ": [f, g]}}]"))
			if err != nil {
				t.Errorf("%s, %s: %v", version, features, err)
				continue
			}
			want := &oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "1.2", OSFeatures: []string{"f", "g"}}
			if diff := cmp.Diff(want, got.Inputs[0].Platform); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", version, features, diff)
			}
		}
	}
}

func TestFaultsOfASpecAreNamedByLine(t *testing.T) {
	for name, c := range map[string]struct {
		text, reason string
		line         int
	}{
		"unknown key":          {"image: a\nmanifest: []\n", `unknown key "manifest", want one of annotations, image, manifests, tags`, 2},
		"unknown in an entry":  {"image: a\nmanifests:\n  - image: b\n    arch: x\n", `unknown key "arch"`, 4},
		"unknown in platform":  {"image: a\nmanifests:\n  - image: b\n    platform:\n      os: linux\n      Architecture: x\n", `unknown key "Architecture", want one of architecture, os, os-features, os-version, os.features, os.version, osfeatures, osversion, variant`, 6},
		"key twice":            {"image: a\nimage: b\n", `"image" is there twice`, 2},
		"no image":             {"manifests: [{image: b}]\n", "image is missing", 1},
		"no manifests":         {"image: a\n", "manifests is missing", 1},
		"empty manifests":      {"image: a\nmanifests: []\n", "manifests is missing or empty", 1},
		"entry without image":  {"image: a\nmanifests:\n  - platform: {os: linux, architecture: amd64}\n", "image is missing", 3},
		"half a platform":      {"image: a\nmanifests:\n  - image: b\n    platform: {os: linux}\n", "a platform has an os and an architecture", 4},
		"list for text":        {"image: [a]\nmanifests: [{image: b}]\n", "want a text", 1},
		"text for list":        {"image: a\ntags: x\nmanifests: [{image: b}]\n", "want a list", 2},
		"text for mapping":     {"image: a\nannotations: x\n", "want keys and values", 2},
		"null":                 {"image: ~\nmanifests: [{image: b}]\n", "want a text", 1},
		"not a reference":      {"image: A\nmanifests: [{image: b}]\n", "lowercase", 1},
		"digest as target":     {"image: a@" + sum + "\nmanifests: [{image: b}]\n", "under a tag, not a digest", 1},
		"source no reference":  {"image: a\nmanifests:\n  - image: B\n", "lowercase", 3},
		"not a tag":            {"image: a\ntags:\n  - a/b\nmanifests: [{image: b}]\n", `tag "a/b" is not a tag`, 3},
		"no YAML":              {"image: a\n\tx: y\n", "", 2},
		"two documents":        {"image: a\nmanifests: [{image: b}]\n---\nimage: c\n", "a second document", 3},
		"empty":                {"", "the file is empty", 0},
		"comments only":        {"# nothing\n", "the file is empty", 0},
		"a list":               {"- a\n", "want keys and values", 1},
		"too large":            {strings.Repeat("#", spec.MaxSize+1), "the limit is", 0},
		"key that is no text":  {"image: a\n? [x]\n: y\n", "a key is not a text", 2},
		"feature that is none": {"image: a\nmanifests: [{image: b, platform: {os: linux, architecture: amd64, os.features: [[x]]}}]", "want a text", 2},
	} {
		_, err := spec.Parse([]byte(c.text))
		var e *spec.Error
		if !errors.As(err, &e) || !strings.Contains(e.Reason, c.reason) || e.Line != c.line {
			t.Errorf("%s: %v, want line %d: %s", name, err, c.line, c.reason)
		}
	}
}

func TestFilesWithASource(t *testing.T) {
	d := &oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: sum, Size: 7, Platform: &oci.Platform{OS: "linux", Architecture: "amd64"}, Annotations: map[string]string{"a": "b"}}
	short := &oci.Descriptor{Digest: sum, MediaType: oci.MediaTypeIndex, Size: 9}
	for text, want := range map[string]manifold.Input{
		sum:                              {Digest: sum},
		sum + "\n":                       {Digest: sum},
		"\r\n " + sum + " \r\n\n":        {Digest: sum},
		"r.example/app:1\n":              {Location: at(t, "r.example/app:1")},
		"docker-archive:a.tar:app:1\r\n": {Location: at(t, "docker-archive:a.tar:app:1")},
		`{"mediaType":"` + oci.MediaTypeManifest + `","digest":"` + sum + `","size":7,"platform":{"architecture":"amd64","os":"linux"},"annotations":{"a":"b"},"x":1}` + "\n\n": {Digest: sum, Descriptor: d},
		`{"digest":"` + sum + `"}`: {Digest: sum, Descriptor: &oci.Descriptor{Digest: sum}},
		`{"containerimage.descriptor":{"mediaType":"` + oci.MediaTypeIndex + `","digest":"` + sum + `","size":9,"platform":{"os":"linux","architecture":"amd64"}},"image.name":"r.example/a:1,r.example/b:2","buildx.build.ref":"x"}`: {
			Digest: sum, Descriptor: short, Location: ref.Location{Reference: ref.Reference{Host: "r.example", Repository: "a", Digest: sum}}},
		`{"containerimage.digest":"` + sum + `"}`: {Digest: sum, Descriptor: &oci.Descriptor{Digest: sum}},
	} {
		got, err := spec.File([]byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

func TestFilesThatAreNoSource(t *testing.T) {
	const nothing = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for text, reason := range map[string]string{
		"":                         "the file is empty",
		" \n":                      "the file is empty",
		sum + "\n" + sum:           "line 2: more than one line",
		`{"schemaVersion":2}`:      "is a manifest or an index",
		`{"manifests":[]}`:         "is a manifest or an index",
		`{"layers":[]}`:            "is a manifest or an index",
		`{}`:                       `digest ""`,
		`{"digest":"sha256:1"}`:    `digest "sha256:1"`,
		`{"Digest":"` + sum + `"}`: `digest ""`,
		`{"digest":"` + sum:        "is not the JSON of a descriptor",
		`{"digest":"` + sum + `","digest":"` + sum + `"}`:          "duplicate",
		`{"digest":"` + sum + `"} x`:                               "is not the JSON of a descriptor",
		`{"digest":"` + sum + `","size":-1}`:                       "size -1 is negative",
		`{"digest":"` + nothing + `"}`:                             "digest of empty content",
		`{"containerimage.digest":"x"}`:                            `digest "x"`,
		`{"containerimage.digest":"` + sum + `","image.name":"A"}`: "lowercase",
		nothing:                             "digest of empty content",
		"https://r.example/a":               "a reference has no scheme",
		strings.Repeat("a", spec.MaxSize+1): "the limit is",
	} {
		if in, err := spec.File([]byte(text)); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%.80q: %+v, %v; want %q", text, in, err, reason)
		}
	}
}

func TestTemplatesNameOneSourcePerPlatform(t *testing.T) {
	got, err := spec.Expand("r.example/app:OS-ARCHVARIANT", []string{"linux/amd64", "linux/arm/v7", "linux/arm64/v8", "windows(10.0.1)/amd64"})
	if err != nil {
		t.Fatal(err)
	}
	var names, platforms []string
	for _, in := range got {
		names, platforms = append(names, in.Location.String()), append(platforms, oci.FormatPlatform(*in.Platform))
	}
	if diff := cmp.Diff([]string{"r.example/app:linux-amd64", "r.example/app:linux-armv7", "r.example/app:linux-arm64v8", "r.example/app:windows-amd64"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm/v7", "linux/arm64/v8", "windows(10.0.1)/amd64"}, platforms); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	// As manifest-tool: the first of each.
	if in, err := spec.Expand("app-ARCH:OS-CHAOS", []string{"linux/amd64"}); err != nil || in[0].Location != at(t, "app-amd64:linux-CHAOS") {
		t.Errorf("%+v, %v", in, err)
	}
	for template, platform := range map[string]string{"app:x": "linux/amd64", "app:ARCH": "amd64", "APP:ARCH": "linux/amd64"} {
		if in, err := spec.Expand(template, []string{platform}); err == nil {
			t.Errorf("%s for %s: %+v", template, platform, in)
		}
	}
}

// FuzzFile: what is read names a digest or a location, and never the digest of
// nothing.
func FuzzFile(f *testing.F) {
	for _, s := range []string{sum, "app:1\n", `{"digest":"` + sum + `","platform":{"os":"linux"}}`, `{"containerimage.digest":"` + sum + `","image.name":"a,b"}`, "{", "oci:x"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		in, err := spec.File(b)
		if err != nil {
			return
		}
		if in.Location == (ref.Location{}) && in.Digest.Validate() != nil {
			t.Fatalf("%q names nothing: %+v", b, in)
		}
		if in.Descriptor != nil && in.Descriptor.Digest != in.Digest {
			t.Fatalf("%q: two digests", b)
		}
		if in.Digest == digest.FromBytes(nil) {
			t.Fatalf("%q names nothing", b)
		}
	})
}

// FuzzSpec: every entry names something, every target has a tag, and whatever is
// wrong has a line of the file.
func FuzzSpec(f *testing.F) {
	for _, s := range []string{
		"image: a\nmanifests: [{image: b}]", "image: a\ntags: [x]\nmanifests:\n- image: b\n  platform: {os: linux, architecture: arm, os.version: 1}\n",
		"a: &a [*a]\nimage: *a", "image: a\nmanifests: &m\n  - image: b\n  - *m", "--- a\n--- b", "image: !!binary aGk=",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := spec.Parse(b)
		var e *spec.Error
		if err != nil && (!errors.As(err, &e) || e.Line > strings.Count(string(b), "\n")+strings.Count(string(b), "\r")+2) {
			t.Fatalf("%q: %#v", b, err)
		}
		if err != nil {
			return
		}
		for _, r := range s.Targets {
			if r.Tag == "" || r.Digest != "" {
				t.Fatalf("%q: target %+v", b, r)
			}
		}
		for _, in := range s.Inputs {
			if in.Location == (ref.Location{}) && in.Digest == "" {
				t.Fatalf("%q: an entry names nothing", b)
			}
		}
	})
}
