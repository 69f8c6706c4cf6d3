package index_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The bytes of an index are an interface: a release of this program that
// changes them changes the digest of everybody's images.
func TestBytesOfAnIndexNeverChange(t *testing.T) {
	o := index.Options{Annotations: map[string]string{"org.opencontainers.image.version": "1.0 <&>", "a": "b"}}
	got := assemble(t, o,
		attested(image(t, "a", "linux/amd64"), "att-a"),
		attested(image(t, "b", "linux/arm/v6"), "att-b"),
		image(t, "w", "windows(10.0.17763.1+win32k)/amd64"),
	)
	want, err := os.ReadFile("testdata/annotated.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got.Bytes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := oci.Check(got.Descriptor, want); err != nil || got.MediaType != oci.MediaTypeIndex {
		t.Errorf("descriptor %+v: %v", got.Descriptor, err)
	}
}

// Equal images give the digest that buildx gives, which marshals the
// image-spec's own struct.
func TestBytesAreThoseOfTheSpecsStruct(t *testing.T) {
	images := []index.Image{image(t, "a", "linux/amd64"), attested(image(t, "b", "linux/arm64"), "att-b")}
	images[0].Entry.URLs = []string{"https://a.example/?a=1&b=<2>"}
	images[1].Entry.Data = []byte("x")
	images[1].Entry.ArtifactType = "application/x.test"
	want, err := json.MarshalIndent(ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeIndex, ArtifactType: "application/x.index",
		Manifests:   []ocispec.Descriptor{images[0].Entry.Descriptor, images[1].Entry.Descriptor, images[1].Attestations[0].Descriptor},
		Annotations: map[string]string{"z": "1", "a": "2"},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	o := index.Options{ArtifactType: "application/x.index", Annotations: map[string]string{"a": "2", "z": "1"}}
	if diff := cmp.Diff(string(want), string(assemble(t, o, images...).Bytes)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Images of two attested indexes stand first, attestations follow in the
// order of their images, each bound to its own.
func TestImagesStandInArgumentOrderAndAttestationsAfterThem(t *testing.T) {
	b := assemble(t, index.Options{},
		attested(image(t, "z", "linux/s390x"), "att-z"), image(t, "m", "linux/arm64"), attested(image(t, "a", "linux/amd64"), "att-a"))
	want := short(dg("z")) + " linux/s390x\n" + short(dg("m")) + " linux/arm64\n" + short(dg("a")) + " linux/amd64\n" +
		short(dg("att-z")) + " unknown/unknown -> " + short(dg("z")) + "\n" + short(dg("att-a")) + " unknown/unknown -> " + short(dg("a")) + "\n"
	if diff := cmp.Diff(want, lines(t, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// One attestation manifest may speak of two images.
func TestEqualAttestationsOfTwoImagesAreBothKept(t *testing.T) {
	b := assemble(t, index.Options{},
		attested(image(t, "a", "linux/amd64"), "same"), attested(image(t, "b", "linux/arm64"), "same"))
	for _, name := range []string{"a", "b"} {
		if !strings.Contains(lines(t, b), short(dg("same"))+" unknown/unknown -> "+short(dg(name))) {
			t.Errorf("%s lost its attestation:\n%s", name, lines(t, b))
		}
	}
}

func TestOneImageGivenTwiceIsOneEntry(t *testing.T) {
	again := attested(image(t, "a", "linux/amd64"), "att-2")
	again.Entry.Annotations = map[string]string{"k": "v"}
	b := assemble(t, index.Options{}, attested(image(t, "a", "linux/amd64"), "att-1"), image(t, "b", "linux/arm64"), again, attested(image(t, "a", "linux/amd64/v1"), "att-1"))
	want := short(dg("a")) + " linux/amd64\n" + short(dg("b")) + " linux/arm64\n" +
		short(dg("att-1")) + " unknown/unknown -> " + short(dg("a")) + "\n" + short(dg("att-2")) + " unknown/unknown -> " + short(dg("a")) + "\n"
	if diff := cmp.Diff(want, lines(t, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parse(t, b).Manifests[0].Annotations["k"]; got != "v" {
		t.Errorf("annotation of the second mention is lost: %q", got)
	}
}

// An image of data that runs anywhere is listed once for each platform.
func TestOneDigestMayStandForSeveralPlatforms(t *testing.T) {
	b := assemble(t, index.Options{}, attested(image(t, "a", "linux/amd64"), "att"), attested(image(t, "a", "linux/arm64"), "att"))
	want := short(dg("a")) + " linux/amd64\n" + short(dg("a")) + " linux/arm64\n" + short(dg("att")) + " unknown/unknown -> " + short(dg("a")) + "\n"
	if diff := cmp.Diff(want, lines(t, b)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTwoImagesForOnePlatformAreRefusedWithBothNames(t *testing.T) {
	for name, c := range map[string]struct {
		first, second string
		duplicate     bool
	}{
		"plain":               {"linux/amd64", "linux/amd64", true},
		"amd64 and v1":        {"linux/amd64", "linux/amd64/v1", true},
		"arm and v7":          {"linux/arm", "linux/arm/v7", true},
		"arm v6 and v7":       {"linux/arm/v6", "linux/arm/v7", false},
		"two Windows":         {"windows(10.0.17763.1)/amd64", "windows(10.0.20348.1)/amd64", false},
		"one Windows":         {"windows(10.0.17763.1)/amd64", "windows(10.0.17763.1)/amd64", true},
		"Windows and unknown": {"windows/amd64", "windows(10.0.17763.1)/amd64", false},
		"os features":         {"linux/amd64", "linux(+f)/amd64", false},
		"wasm":                {"wasip1/wasm", "wasi/wasm", false},
	} {
		_, err := index.Assemble([]index.Image{image(t, "1", c.first), image(t, "2", c.second)}, index.Options{})
		var d *index.DuplicateError
		if errors.As(err, &d) != c.duplicate {
			t.Errorf("%s: %v", name, err)
		}
		if d != nil && (d.First.Digest != dg("1") || d.First.Source != "r.example/s/img:1" || d.Second.Digest != dg("2") || d.Second.Source != "r.example/s/img:2") {
			t.Errorf("%s: does not name both: %v", name, d)
		}
	}
}

// The text of an unchanged child's platform is not normalised.
func TestPlatformsAreWrittenAsTheyWereRead(t *testing.T) {
	img := image(t, "a", "linux/arm64")
	img.Entry.Platform.Variant = "v8"
	b := assemble(t, index.Options{}, img)
	if p := parse(t, b).Manifests[0].Platform; p.Variant != "v8" {
		t.Errorf("platform became %+v", p)
	}
	other := image(t, "b", "linux/arm64")
	var d *index.DuplicateError
	if _, err := index.Assemble([]index.Image{img, other}, index.Options{}); !errors.As(err, &d) {
		t.Errorf("arm64 beside arm64/v8: %v", err)
	}
}

func TestArtifactsStandBesideImagesButNeverAlone(t *testing.T) {
	artifact := image(t, "chart", "")
	artifact.Artifact = true
	b := assemble(t, index.Options{}, image(t, "a", "linux/amd64"), artifact)
	if got := parse(t, b).Manifests[1]; got.Platform != nil || got.Digest != dg("chart") {
		t.Errorf("artifact became %+v", got.Descriptor)
	}
	var none *index.NoPlatformError
	if _, err := index.Assemble([]index.Image{artifact}, index.Options{}); !errors.As(err, &none) || none.Image.Source != artifact.Source {
		t.Errorf("artifact alone: %v", err)
	}
	artifact.Entry = index.WithPlatform(artifact.Entry, oci.Platform{OS: "linux", Architecture: "amd64"})
	assemble(t, index.Options{}, artifact)
	if _, err := index.Assemble([]index.Image{image(t, "a", "linux/amd64"), image(t, "b", "")}, index.Options{}); !errors.As(err, &none) || none.Image.Digest != dg("b") {
		t.Errorf("image without platform: %v", err)
	}
	if _, err := index.Assemble(nil, index.Options{}); !errors.Is(err, index.ErrEmpty) {
		t.Errorf("nothing: %v", err)
	}
}

func TestEntriesWithNoPlaceInAnIndexAreRefused(t *testing.T) {
	edit := func(f func(*index.Image)) index.Image {
		img := attested(image(t, "a", "linux/amd64"), "att")
		f(&img)
		return img
	}
	for name, c := range map[string]struct {
		img    index.Image
		reason string
	}{
		"an index":       {edit(func(i *index.Image) { i.Entry.MediaType = oci.MediaTypeIndex }), "is an index itself"},
		"a list":         {edit(func(i *index.Image) { i.Entry.MediaType = oci.MediaTypeDockerList }), "is an index itself"},
		"an attestation": {edit(func(i *index.Image) { i.Entry = i.Attestations[0] }), "is an attestation"},
		"no media type":  {edit(func(i *index.Image) { i.Entry.MediaType = "" }), "no media type"},
		"no digest":      {edit(func(i *index.Image) { i.Entry.Digest = "sha256:1" }), "no valid digest"},
		"no size":        {edit(func(i *index.Image) { i.Entry.Size = 0 }), "no size"},
		"attestation of another image": {edit(func(i *index.Image) { i.Attestations[0] = index.Attest(i.Attestations[0], dg("b")) }),
			"not annotated as an attestation of " + string(dg("a"))},
		"attestation without annotation": {edit(func(i *index.Image) { i.Attestations[0].Annotations = nil }), "not annotated"},
		"attestation without digest":     {edit(func(i *index.Image) { i.Attestations[0].Digest = "" }), "no valid digest"},
	} {
		_, err := index.Assemble([]index.Image{c.img}, index.Options{})
		var e *index.EntryError
		if !errors.As(err, &e) || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestMediaTypeOfTheResult(t *testing.T) {
	oc, dk := image(t, "a", "linux/amd64"), docker(image(t, "b", "linux/arm64"))
	noted := dk
	noted.Entry.Annotations = map[string]string{"k": "v"}
	ociBase, dockerBase := raw(oci.MediaTypeIndex, `{"schemaVersion":2,"manifests":[]}`), raw(oci.MediaTypeDockerList, `{"schemaVersion":2,"manifests":[]}`)
	notes := map[string]string{"k": "v"}
	for name, c := range map[string]struct {
		o      index.Options
		images []index.Image
		want   string // "" = refused
	}{
		"all OCI":                         {index.Options{}, []index.Image{oc}, oci.MediaTypeIndex},
		"all Docker":                      {index.Options{}, []index.Image{dk}, oci.MediaTypeDockerList},
		"mixed":                           {index.Options{}, []index.Image{oc, dk}, oci.MediaTypeIndex},
		"Docker with annotations":         {index.Options{Annotations: notes}, []index.Image{dk}, oci.MediaTypeIndex},
		"Docker with an annotated entry":  {index.Options{}, []index.Image{noted}, oci.MediaTypeIndex},
		"Docker, annotated on the way":    {index.Options{DescriptorAnnotations: func(oci.Entry) map[string]string { return notes }}, []index.Image{dk}, oci.MediaTypeIndex},
		"Docker with an attestation":      {index.Options{}, []index.Image{attested(dk, "att")}, oci.MediaTypeIndex},
		"Docker with an artifact type":    {index.Options{ArtifactType: "a/b"}, []index.Image{dk}, oci.MediaTypeIndex},
		"all Docker, OCI asked":           {index.Options{MediaType: oci.MediaTypeIndex}, []index.Image{dk}, oci.MediaTypeIndex},
		"all Docker, Docker asked":        {index.Options{MediaType: oci.MediaTypeDockerList}, []index.Image{dk}, oci.MediaTypeDockerList},
		"OCI, Docker asked":               {index.Options{MediaType: oci.MediaTypeDockerList}, []index.Image{oc}, ""},
		"Docker asked, with annotations":  {index.Options{MediaType: oci.MediaTypeDockerList, Annotations: notes}, []index.Image{dk}, ""},
		"a manifest's type asked":         {index.Options{MediaType: oci.MediaTypeManifest}, []index.Image{oc}, ""},
		"an OCI index edited":             {index.Options{Base: &ociBase}, []index.Image{dk}, oci.MediaTypeIndex},
		"a Docker list edited":            {index.Options{Base: &dockerBase}, []index.Image{dk}, oci.MediaTypeDockerList},
		"a Docker list with an OCI image": {index.Options{Base: &dockerBase}, []index.Image{dk, oc}, oci.MediaTypeIndex},
		"a Docker list that is annotated": {index.Options{Base: &dockerBase, Annotations: notes}, []index.Image{dk}, oci.MediaTypeIndex},
	} {
		b, err := index.Assemble(c.images, c.o)
		var refused *index.MediaTypeError
		if c.want == "" && !errors.As(err, &refused) || c.want != "" && (err != nil || b.MediaType != c.want) {
			t.Errorf("%s: %q, %v; want %q", name, b.MediaType, err, c.want)
			continue
		}
		if c.o.Annotations != nil && err == nil && parse(t, b).Annotations["k"] != "v" {
			t.Errorf("%s: annotation dropped", name)
		}
	}
}

// The size is known before anything is written.
func TestAnIndexThatRegistriesWouldRefuseIsNotMade(t *testing.T) {
	big := func(n int) index.Options {
		return index.Options{Annotations: map[string]string{"x": strings.Repeat("a", n)}}
	}
	_, err := index.Assemble([]index.Image{image(t, "a", "linux/amd64")}, big(4_300_000))
	var size *index.SizeError
	if !errors.As(err, &size) || size.Size < 4_300_000 || size.Limit != oci.MaxManifestSize {
		t.Errorf("4.3 MB: %v", err)
	}
	assemble(t, big(3_900_000), image(t, "a", "linux/amd64"))
}

func TestDescriptorAnnotationsAreForImagesAndLeaveTheInputAlone(t *testing.T) {
	img := attested(image(t, "a", "linux/amd64"), "att")
	img.Entry.Annotations = map[string]string{"old": "1", "k": "1"}
	o := index.Options{DescriptorAnnotations: func(e oci.Entry) map[string]string {
		return map[string]string{"k": oci.FormatPlatform(*e.Platform)}
	}}
	got := parse(t, assemble(t, o, img, image(t, "b", "linux/arm64"))).Manifests
	if diff := cmp.Diff(map[string]string{"old": "1", "k": "linux/amd64"}, got[0].Annotations); diff != "" {
		t.Errorf("first (-want +got):\n%s", diff)
	}
	if got[1].Annotations["k"] != "linux/arm64" || got[2].Annotations["k"] != "" {
		t.Errorf("second and attestation: %v, %v", got[1].Annotations, got[2].Annotations)
	}
	if img.Entry.Annotations["k"] != "1" {
		t.Error("the caller's map was changed")
	}
}

// testdata/buildx-*.json are what "docker buildx imagetools create" (v0.38.2)
// stored in a registry for two single-platform images.
func TestPlainInputsGiveTheDigestThatBuildxGives(t *testing.T) {
	for name, annotations := range map[string]map[string]string{
		"oci": nil, "docker": nil, "mixed": {"a": "1"},
	} {
		want, err := os.ReadFile("testdata/buildx-" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		images, _, err := index.Flatten(oci.NewBlob("", want), "")
		if err != nil {
			t.Fatal(err)
		}
		for i := range images {
			images[i].Entry.Raw = nil
		}
		got := assemble(t, index.Options{Annotations: annotations}, images...)
		if diff := cmp.Diff(string(want), string(got.Bytes)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
