package index_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// What this program does not know, an edit does not lose.
func TestEditingKeepsUnknownMembersAndEverythingOfTheIndex(t *testing.T) {
	base := raw(oci.MediaTypeIndex, `{"x-top":{"b":1,"a":[true]},"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","artifactType":"a/b",
		"manifests":[{"x-first":1.50,"digest":"`+string(dg("a"))+`","size":7,"mediaType":"`+oci.MediaTypeManifest+`",
			"platform":{"features":["sse4"],"os":"linux","architecture":"amd64"},"x-last":"<é>"}],
		"subject":{"mediaType":"c/d","digest":"`+string(dg("s"))+`","size":1},"annotations":{"keep":"1","change":"1"}}`)
	images, others, err := index.Flatten(base, "src")
	if err != nil || len(others) != 0 {
		t.Fatal(images, others, err)
	}
	images[0].Entry.Annotations = map[string]string{"new": "1"}
	got := assemble(t, index.Options{Base: &base, Annotations: map[string]string{"change": "2"}}, append(images, image(t, "b", "linux/arm64"))...)
	want := `{
  "schemaVersion": 2,
  "mediaType": "application/vnd.oci.image.index.v1+json",
  "artifactType": "a/b",
  "manifests": [
    {
      "mediaType": "application/vnd.oci.image.manifest.v1+json",
      "digest": "` + string(dg("a")) + `",
      "size": 7,
      "annotations": {
        "new": "1"
      },
      "platform": {
        "architecture": "amd64",
        "os": "linux",
        "features": [
          "sse4"
        ]
      },
      "x-first": 1.50,
      "x-last": "\u003cé\u003e"
    },
    {
      "mediaType": "application/vnd.oci.image.manifest.v1+json",
      "digest": "` + string(dg("b")) + `",
      "size": 424,
      "platform": {
        "architecture": "arm64",
        "os": "linux"
      }
    }
  ],
  "subject": {
    "mediaType": "c/d",
    "digest": "` + string(dg("s")) + `",
    "size": 1
  },
  "annotations": {
    "change": "2",
    "keep": "1"
  },
  "x-top": {
    "b": 1,
    "a": [
      true
    ]
  }
}`
	if diff := cmp.Diff(want, string(got.Bytes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestABaseThatIsReadTwoWaysIsNotEdited(t *testing.T) {
	base := raw(oci.MediaTypeIndex, `{"schemaVersion":2,"manifests":[],"Manifests":[]}`)
	_, err := index.Assemble([]index.Image{image(t, "a", "linux/amd64")}, index.Options{Base: &base})
	var syntax *oci.SyntaxError
	if !errors.As(err, &syntax) {
		t.Errorf("%v", err)
	}
}

func TestWithPlatformFillsInWhatTheDescriptorDoesNotSay(t *testing.T) {
	config := oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.17763.1", OSFeatures: []string{"win32k"}}
	for name, c := range map[string]struct{ have, config, want *oci.Platform }{
		"none":                  {nil, &config, &config},
		"empty":                 {&oci.Platform{}, &config, &config},
		"unknown":               {&oci.Platform{OS: "unknown", Architecture: "unknown"}, &config, &config},
		"os.version is missing": {&oci.Platform{OS: "windows", Architecture: "amd64"}, &config, &oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.17763.1"}},
		"another os.version":    {&oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "1"}, &config, &oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "1"}},
		"another system":        {&oci.Platform{OS: "linux", Architecture: "amd64"}, &config, &oci.Platform{OS: "linux", Architecture: "amd64"}},
		"variant stays out":     {&oci.Platform{OS: "linux", Architecture: "arm64"}, &oci.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"}, &oci.Platform{OS: "linux", Architecture: "arm64"}},
		"config says nothing":   {nil, &oci.Platform{}, nil},
	} {
		e := index.WithPlatform(oci.Entry{Descriptor: oci.Descriptor{Platform: c.have}, Raw: []byte(`{"x":1}`)}, *c.config)
		if diff := cmp.Diff(c.want, e.Platform); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if string(e.Raw) != `{"x":1}` {
			t.Errorf("%s: Raw is %s", name, e.Raw)
		}
	}
}

func entryText(mediaType, name, more string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":5%s}`, mediaType, dg(name), more)
}

func attestationText(name, of string) string {
	return entryText(oci.MediaTypeManifest, name, `,"platform":{"os":"unknown","architecture":"unknown"},"annotations":{"vnd.docker.reference.type":"attestation-manifest","vnd.docker.reference.digest":"`+string(dg(of))+`"}`)
}

func indexText(entries ...string) oci.Blob {
	return raw(oci.MediaTypeIndex, `{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+strings.Join(entries, ",")+`]}`)
}

func TestFlattenBindsAttestationsAndKeepsOrder(t *testing.T) {
	amd64 := `,"platform":{"os":"linux","architecture":"amd64"}`
	b := indexText(
		attestationText("att-b", "b"),
		entryText(oci.MediaTypeManifest, "b", `,"platform":{"os":"linux","architecture":"arm64"}`),
		entryText(oci.MediaTypeIndex, "inner", amd64),
		attestationText("stray", "gone"),
		entryText(oci.MediaTypeManifest, "bare", ""),
		entryText(oci.MediaTypeManifest, "chart", `,"artifactType":"application/x.test"`),
		entryText("application/vnd.buildkit.cacheconfig.v0", "cache", ""),
		attestationText("att-b2", "b"),
	)
	images, others, err := index.Flatten(b, "r.example/a:1")
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		Name     string
		Artifact bool
		Att      []string
	}
	var got []line
	for _, img := range images {
		l := line{Name: short(img.Entry.Digest), Artifact: img.Artifact}
		for _, a := range img.Attestations {
			l.Att = append(l.Att, short(a.Digest))
		}
		got = append(got, l)
		if img.Source != "r.example/a:1" || len(img.Entry.Raw) == 0 {
			t.Errorf("%s: source %q, raw %q", l.Name, img.Source, img.Entry.Raw)
		}
	}
	want := []line{
		{Name: short(dg("b")), Att: []string{short(dg("att-b")), short(dg("att-b2"))}},
		{Name: short(dg("inner"))},
		{Name: short(dg("bare"))},
		{Name: short(dg("chart")), Artifact: true},
		{Name: short(dg("cache")), Artifact: true},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if len(others) != 1 || others[0].Digest != dg("stray") {
		t.Errorf("others: %+v", others)
	}
}

type fetcher map[digest.Digest]oci.Blob

func (f fetcher) FetchManifest(_ context.Context, d oci.Descriptor) (oci.Blob, error) {
	b, ok := f[d.Digest]
	if !ok {
		return oci.Blob{}, errors.New("absent: " + string(d.Digest))
	}
	return b, nil
}

func (f fetcher) nest(b oci.Blob) string {
	f[b.Digest] = b
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d}`, b.MediaType, b.Digest, b.Size)
}

// Inputs are flattened to exactly one level.
func TestExpandOpensNestedIndexesInPlace(t *testing.T) {
	f := fetcher{}
	platform := func(arch string) string { return `,"platform":{"os":"linux","architecture":"` + arch + `"}` }
	inner := indexText(entryText(oci.MediaTypeManifest, "b", platform("arm64")), attestationText("att-a", "a"))
	b := indexText(
		f.nest(inner), attestationText("att-b", "b"), entryText(oci.MediaTypeManifest, "a", platform("amd64")), f.nest(inner),
	)
	images, others, err := index.Expand(t.Context(), f, b, "s")
	if err != nil || len(others) != 0 {
		t.Fatal(others, err)
	}
	want := short(dg("b")) + " linux/arm64\n" + short(dg("a")) + " linux/amd64\n" +
		short(dg("att-b")) + " unknown/unknown -> " + short(dg("b")) + "\n" + short(dg("att-a")) + " unknown/unknown -> " + short(dg("a")) + "\n"
	if diff := cmp.Diff(want, lines(t, assemble(t, index.Options{}, images...))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(f, inner.Digest)
	if _, _, err := index.Expand(t.Context(), f, b, "s"); err == nil {
		t.Error("a nested index that is not there is skipped")
	}
}

func TestExpandEndsOnAChainOfIndexes(t *testing.T) {
	f := fetcher{}
	b := indexText()
	for range 50 {
		b = indexText(f.nest(b))
	}
	_, _, err := index.Expand(t.Context(), f, b, "s")
	var deep *oci.DepthError
	if !errors.As(err, &deep) {
		t.Errorf("%v", err)
	}
}

// FuzzFlattenAssemble: what is taken apart and put together again names the
// same children with the same bytes, and putting it together once more changes
// nothing.
func FuzzFlattenAssemble(f *testing.F) {
	amd64 := `,"platform":{"os":"linux","architecture":"amd64","x":1},"y":{"z":[]}`
	f.Add(indexText(entryText(oci.MediaTypeManifest, "a", amd64), attestationText("t", "a")).Bytes)
	f.Add(indexText(entryText(oci.MediaTypeManifest, "a", amd64), entryText("x/y", "c", ""), attestationText("t", "gone")).Bytes)
	f.Add(raw("", `{"schemaVersion":2,"mediaType":"`+oci.MediaTypeDockerList+`","x":[1e9],"manifests":[`+entryText(oci.MediaTypeDockerManifest, "a", amd64)+`]}`).Bytes)
	f.Add(indexText().Bytes)
	f.Fuzz(func(t *testing.T, b []byte) {
		base := oci.NewBlob("", b)
		images, _, err := index.Flatten(base, "s")
		if err != nil {
			return
		}
		first, err := index.Assemble(images, index.Options{Base: &base})
		if err != nil {
			return
		}
		again, _, err := index.Flatten(first, "s")
		if err != nil {
			t.Fatalf("output does not parse: %v\n%s", err, first.Bytes)
		}
		second, err := index.Assemble(again, index.Options{Base: &first})
		if err != nil {
			t.Fatalf("output cannot be edited: %v\n%s", err, first.Bytes)
		}
		if diff := cmp.Diff(string(first.Bytes), string(second.Bytes)); diff != "" {
			t.Fatalf("not stable (-first +second):\n%s", diff)
		}
		sameChildren(t, images, again)
	})
}

func sameChildren(t *testing.T, before, after []index.Image) {
	t.Helper()
	known := map[digest.Digest]oci.Descriptor{}
	for _, img := range before {
		for _, e := range append(img.Attestations, img.Entry) {
			known[e.Digest] = e.Descriptor
		}
	}
	seen := map[digest.Digest]bool{}
	for _, img := range after {
		for _, e := range append(img.Attestations, img.Entry) {
			if known[e.Digest].MediaType == "" {
				t.Fatalf("new child %s", e.Digest)
			}
			seen[e.Digest] = true
		}
	}
	for d := range known {
		if !seen[d] {
			t.Fatalf("lost child %s", d)
		}
	}
}
