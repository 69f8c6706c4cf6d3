package index_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
)

func platform(t *testing.T, s string) oci.Platform {
	t.Helper()
	p, err := oci.ParsePlatform(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func on(t *testing.T, s string) index.Selector { return index.Selector{Platform: platform(t, s)} }

// four are two attested images, one that is not, and two Windows.
func four(t *testing.T) []index.Image {
	return []index.Image{
		attested(image(t, "a", "linux/amd64"), "att-a"), attested(image(t, "b", "linux/arm64/v8"), "att-b"),
		image(t, "w1", "windows(1)/amd64"), image(t, "w2", "windows(2)/amd64"),
	}
}

// summary writes the images of a list, with what each takes along.
func summary(images []index.Image) string {
	var out []string
	for _, img := range images {
		s := short(img.Entry.Digest)
		if img.Entry.Platform != nil {
			s += " " + oci.FormatPlatform(*img.Entry.Platform)
		}
		for _, a := range img.Attestations {
			s += " +" + short(a.Digest)
		}
		out = append(out, s)
	}
	return strings.Join(out, "; ")
}

func TestRemoveTakesAttestationsAlong(t *testing.T) {
	whole := summary(four(t))
	for name, c := range map[string]struct {
		which []index.Selector
		gone  []string
	}{
		"a platform":             {[]index.Selector{on(t, "linux/arm64")}, []string{"b", "att-b"}},
		"every version":          {[]index.Selector{on(t, "windows/amd64")}, []string{"w1", "w2"}},
		"one version":            {[]index.Selector{on(t, "windows(2)/amd64")}, []string{"w2"}},
		"a digest":               {[]index.Selector{{Digest: dg("a")}}, []string{"a", "att-a"}},
		"an attestation alone":   {[]index.Selector{{Digest: dg("att-a")}}, []string{"att-a"}},
		"two":                    {[]index.Selector{on(t, "linux/amd64"), {Digest: dg("w1")}}, []string{"a", "att-a", "w1"}},
		"image then attestation": {[]index.Selector{{Digest: dg("att-b")}, on(t, "linux/arm64")}, []string{"b", "att-b"}},
	} {
		images := four(t)
		got, err := index.Remove(images, c.which...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, n := range []string{"a", "att-a", "b", "att-b", "w1", "w2"} {
			want := true
			for _, g := range c.gone {
				want = want && g != n
			}
			if strings.Contains(summary(got), short(dg(n))) != want {
				t.Errorf("%s: %s is there: %v\n%s", name, n, !want, summary(got))
			}
		}
		if summary(images) != whole {
			t.Errorf("%s: what was given has changed", name)
		}
	}
	for _, s := range []index.Selector{on(t, "linux/s390x"), on(t, "windows(3)/amd64"), on(t, "linux/arm/v7"), {Digest: dg("none")}} {
		var e *index.AbsentError
		if _, err := index.Remove(four(t), s); !errors.As(err, &e) || e.What != s.String() || len(e.Have) != 4 {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func TestReplaceKeepsPlacesAndSwapsAttestations(t *testing.T) {
	newer := attested(image(t, "n", "linux/arm64"), "att-n")
	got, err := index.Replace(four(t), []index.Image{newer, image(t, "w3", "windows(2)/amd64")}, false)
	if err != nil {
		t.Fatal(err)
	}
	want := summary([]index.Image{four(t)[0], newer, four(t)[2], image(t, "w3", "windows(2)/amd64")})
	if diff := cmp.Diff(want, summary(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var e *index.AbsentError
	if _, err := index.Replace(four(t), []index.Image{image(t, "s", "linux/s390x")}, false); !errors.As(err, &e) || e.What != "linux/s390x" {
		t.Errorf("%v", err)
	}
	if got, err := index.Replace(four(t), []index.Image{image(t, "s", "linux/s390x")}, true); err != nil || len(got) != 5 {
		t.Errorf("%s, %v", summary(got), err)
	}
	// Two for one platform are not one after the other, they collide.
	for _, p := range []string{"linux/amd64", "linux/s390x"} {
		got, err := index.Replace(four(t), []index.Image{image(t, "1", p), image(t, "2", p)}, true)
		if err != nil {
			t.Fatal(err)
		}
		var d *index.DuplicateError
		if _, err := index.Assemble(got, index.Options{}); !errors.As(err, &d) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

func TestRelabelChangesEntriesOnly(t *testing.T) {
	images := four(t)
	got, err := index.Relabel(images, on(t, "windows/amd64"), func(p oci.Platform) oci.Platform { p.OSVersion = ""; return p })
	if err != nil || oci.FormatPlatform(*got[2].Entry.Platform) != "windows/amd64" || got[2].Entry.Digest != dg("w1") || len(got[0].Attestations) != 1 {
		t.Errorf("%s, %v", summary(got), err)
	}
	if oci.FormatPlatform(*images[2].Entry.Platform) != "windows(1)/amd64" {
		t.Error("what was given has changed")
	}
	artifact := image(t, "x", "")
	artifact.Artifact = true
	got, err = index.Relabel([]index.Image{artifact}, index.Selector{Digest: dg("x")}, func(oci.Platform) oci.Platform { return platform(t, "linux/amd64") })
	if err != nil || got[0].Artifact {
		t.Errorf("an artifact with a platform: %+v, %v", got, err)
	}
	var e *index.AbsentError
	if _, err := index.Relabel(images, on(t, "linux/mips"), func(p oci.Platform) oci.Platform { return p }); !errors.As(err, &e) {
		t.Errorf("%v", err)
	}
}

func TestSameLooksAtWhatAnIndexSays(t *testing.T) {
	a := `{"mediaType":"` + oci.MediaTypeManifest + `","digest":"` + string(dg("a")) + `","size":7,"platform":{"os":"linux","architecture":"amd64"}}`
	b := `{"platform":{"architecture":"arm64","os":"linux"},"x":1,"size":7,"digest":"` + string(dg("b")) + `","mediaType":"` + oci.MediaTypeManifest + `"}`
	of := func(entries, more string) oci.Blob {
		return raw(oci.MediaTypeIndex, `{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+entries+`]`+more+`}`)
	}
	base := of(a+","+b, "")
	for name, c := range map[string]struct {
		other oci.Blob
		same  bool
	}{
		"itself":            {base, true},
		"laid out":          {of(" \n"+a+" , "+b, "\n"), true},
		"another order":     {of(b+","+a, ""), true},
		"one less":          {of(a, ""), false},
		"annotations":       {of(a+","+b, `,"annotations":{"k":"v"}`), false},
		"unknown member":    {of(a+","+b, `,"x":1`), false},
		"unknown, of entry": {of(a+","+strings.Replace(b, `"x":1`, `"x":2`, 1), ""), false},
		"platform":          {of(a+","+strings.Replace(b, `arm64`, `arm`, 1), ""), false},
		"media type":        {raw(oci.MediaTypeDockerList, `{"schemaVersion":2,"mediaType":"`+oci.MediaTypeDockerList+`","manifests":[`+a+`,`+b+`]}`), false},
		"no index":          {raw(oci.MediaTypeIndex, `{"schemaVersion":2}`), false},
	} {
		if got := index.Same(base, c.other); got != c.same {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The bytes of an annotated manifest are an interface, as those of an index are.
func TestAnnotatedManifestKeepsEverythingElse(t *testing.T) {
	old := raw(oci.MediaTypeManifest, `{"x-first": [1.50], "schemaVersion": 2, "mediaType": "`+oci.MediaTypeManifest+`",
	"annotations": {"keep": "1", "change": "<old>"}, "config": {"mediaType": "`+oci.MediaTypeConfig+`", "digest": "`+string(dg("c"))+`", "size": 3, "x": null},
	"layers": [], "x-last": "é"}`)
	got, err := index.AnnotateManifest(old, map[string]string{"change": "<new>", "a": "b"})
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/annotated-manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got.Bytes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := oci.Check(got.Descriptor, got.Bytes); err != nil || got.MediaType != oci.MediaTypeManifest {
		t.Errorf("%+v: %v", got.Descriptor, err)
	}
	again, err := index.AnnotateManifest(got, map[string]string{"a": "b"})
	if err != nil || again.Digest != got.Digest {
		t.Errorf("annotated twice: %s, %v", again.Digest, err)
	}
	var refused *index.MediaTypeError
	list := raw(oci.MediaTypeDockerManifest, strings.Replace(string(old.Bytes), oci.MediaTypeManifest, oci.MediaTypeDockerManifest, 1))
	if _, err := index.AnnotateManifest(list, map[string]string{"a": "b"}); !errors.As(err, &refused) {
		t.Errorf("a Docker manifest: %v", err)
	}
	var large *index.SizeError
	if _, err := index.AnnotateManifest(old, map[string]string{"a": strings.Repeat("x", oci.MaxManifestSize)}); !errors.As(err, &large) {
		t.Errorf("too large: %v", err)
	}
}
