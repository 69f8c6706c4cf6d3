package manifold_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
)

// The size of an index is known before anything is sent.
func TestIndexThatIsTooLargeIsRefusedBeforeTheFirstWrite(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("src", "amd", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
	r.Reset()
	o := manifold.CreateOptions{
		Sources: []ref.Location{location(t, r.Reference("src", "amd"))}, Targets: []ref.Reference{reference(t, r.Reference("app", "1"))},
		Annotations: map[string]string{"x": strings.Repeat("a", 4_300_000)},
	}
	var large *index.SizeError
	if _, err := create(t, o); !errors.As(err, &large) || large.Limit != oci.MaxManifestSize || large.Size < 4_300_000 {
		t.Errorf("%v", err)
	}
	if n := r.Count(registrytest.Filter{Method: "POST"}) + r.Count(registrytest.Filter{Method: "PUT"}); n > 0 {
		t.Errorf("%d writes\n%s", n, r.Transcript())
	}
	o.Annotations["x"] = o.Annotations["x"][:3_900_000]
	if _, err := create(t, o); err != nil {
		t.Error(err)
	}
}

// TestAppendRequests is what an edit costs that meets nobody: the tag, two
// children and the new image with its config; the tag's probe and what it names,
// which would be put back; the index and its read back; one look before the tag
// moves; the tag; its read back and the children's; one look at the end.
func TestAppendRequests(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("app", "1", registrytest.Index(t, registrytest.IndexOptions{},
		registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}), registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})))
	r.Push("app", "s390x", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	r.Reset()
	if _, err := create(t, editing(t, r, manifold.Edit{Append: true}, "app:s390x")); err != nil {
		t.Fatal(err)
	}
	want := counted{get: 1 + 2 + 2 + 1 + 1 + 1 + 1 + 3, head: 2, put: 2, total: 16}
	if got := count(r); got != want {
		t.Errorf("requests %+v, want %+v\n%s", got, want, r.Transcript())
	}
}

// What a file says about a source is compared with it, whatever else is given.
func TestDescriptorsAreComparedWithWhatIsThere(t *testing.T) {
	r := registrytest.Distribution(t)
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	latest := registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{})
	two := registrytest.Index(t, registrytest.IndexOptions{}, img, latest)
	r.Push("app", "", img)
	r.Push("app", "two", two)
	r.Push("app", "latest", latest)
	arm := &oci.Platform{OS: "linux", Architecture: "arm64"}
	input := func(d oci.Descriptor) manifold.CreateOptions {
		return manifold.CreateOptions{
			Inputs:  []manifold.Input{{Digest: d.Digest, Descriptor: &d}},
			Targets: []ref.Reference{reference(t, r.Reference("app", "1"))},
		}
	}
	var mismatch *oci.MismatchError
	wrong := img.Root.Descriptor
	wrong.Size++
	if _, err := create(t, input(wrong)); !errors.As(err, &mismatch) || mismatch.What != "size" {
		t.Errorf("size: %v", err)
	}
	wrong = img.Root.Descriptor
	wrong.MediaType = oci.MediaTypeIndex
	if _, err := create(t, input(wrong)); !errors.As(err, &mismatch) || mismatch.What != "media type" {
		t.Errorf("media type: %v", err)
	}
	var said *manifold.InputError
	several := two.Root.Descriptor
	several.Platform = arm
	if _, err := create(t, input(several)); !errors.As(err, &said) {
		t.Errorf("a platform for two images: %v", err)
	}
	right := img.Root.Descriptor
	right.Platform, right.Annotations = arm, map[string]string{"k": "v"}
	made, err := create(t, input(right))
	if err != nil {
		t.Fatal(err)
	}
	idx, err := oci.ParseIndex(made.Index)
	if err != nil || len(idx.Manifests) != 1 || idx.Manifests[0].Digest != img.Digest() || idx.Manifests[0].Platform.Architecture != "arm64" || idx.Manifests[0].Annotations["k"] != "v" {
		t.Errorf("%v\n%s", err, made.Index.Bytes)
	}
}

// A bare digest is in the repository that everything else is about, and nobody
// guesses between two.
func TestWhereABareDigestIs(t *testing.T) {
	r := registrytest.Distribution(t)
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	r.Push("app", "1", img)
	r.Push("src", "1", registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{}))
	bare := manifold.Input{Digest: img.Digest()}
	app, src := location(t, r.Reference("app", "1")), location(t, r.Reference("src", "1"))
	target := reference(t, r.Reference("app", "2"))
	for name, c := range map[string]struct {
		o  manifold.CreateOptions
		ok bool
	}{
		"the target's":           {manifold.CreateOptions{Targets: []ref.Reference{target}}, true},
		"two tags of it":         {manifold.CreateOptions{Targets: []ref.Reference{target, target.WithTag("3")}}, true},
		"before the sources'":    {manifold.CreateOptions{Targets: []ref.Reference{target}, Sources: []ref.Location{src}}, true},
		"the sources'":           {manifold.CreateOptions{DryRun: true, Sources: []ref.Location{app}}, true},
		"two targets":            {manifold.CreateOptions{Targets: []ref.Reference{target, src.Reference.WithTag("2")}}, false},
		"two sources, no target": {manifold.CreateOptions{DryRun: true, Sources: []ref.Location{app, src}}, false},
		"nothing":                {manifold.CreateOptions{DryRun: true}, false},
	} {
		c.o.Inputs = []manifold.Input{bare}
		_, err := create(t, c.o)
		var said *manifold.InputError
		if (err == nil) != c.ok || err != nil && !errors.As(err, &said) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An image may be called what its config does not contradict.
func TestLabelsAgainstConfigs(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("src", "arm64v8", registrytest.Image(t, "linux/arm64/v8", registrytest.ImageOptions{}))
	r.Push("src", "arm", registrytest.Image(t, "linux/arm", registrytest.ImageOptions{}))
	r.Push("src", "armv7", registrytest.Image(t, "linux/arm/v7", registrytest.ImageOptions{}))
	r.Push("src", "win", registrytest.Image(t, "windows/amd64", registrytest.ImageOptions{OSVersion: "1", OSFeatures: []string{"f"}}))
	r.Push("src", "none", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{NoPlatform: true}))
	for _, c := range []struct{ tag, label, want string }{ // want is empty for a refusal
		{"arm64v8", "linux/arm64", "linux/arm64/v8"}, {"arm64v8", "linux/amd64", ""}, {"arm64v8", "windows/arm64", ""},
		{"arm", "linux/arm/v6", "linux/arm/v6"}, {"arm", "linux/arm/v7", "linux/arm/v7"}, {"armv7", "linux/arm/v6", ""}, {"armv7", "linux/arm/v7", "linux/arm/v7"},
		{"win", "windows/amd64", "windows(1+f)/amd64"}, {"win", "windows(2)/amd64", ""}, {"none", "linux/s390x", "linux/s390x"},
	} {
		p, err := oci.ParsePlatform(c.label)
		if err != nil {
			t.Fatal(err)
		}
		made, err := create(t, manifold.CreateOptions{
			DryRun: true, Inputs: []manifold.Input{{Location: location(t, r.Reference("src", c.tag)), Platform: &p}},
		})
		var said *manifold.InputError
		if c.want == "" {
			if !errors.As(err, &said) {
				t.Errorf("%s as %s: %v", c.tag, c.label, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s as %s: %v", c.tag, c.label, err)
			continue
		}
		idx, err := oci.ParseIndex(made.Index)
		if err != nil || oci.FormatPlatform(*idx.Manifests[0].Platform) != c.want {
			t.Errorf("%s as %s:\n%s", c.tag, c.label, made.Index.Bytes)
		}
	}
}

// Two Windows images whose entries do not say which version they are for.
func TestVersionOfWindowsIsReadFromTheConfig(t *testing.T) {
	r := registrytest.Distribution(t)
	var children []registrytest.Content
	for _, version := range []string{"10.0.17763.1", "10.0.20348.1"} {
		img := registrytest.Image(t, "windows/amd64", registrytest.ImageOptions{OSVersion: version})
		img.Platform = &oci.Platform{OS: "windows", Architecture: "amd64"}
		children = append(children, img)
	}
	r.Push("src", "win", registrytest.Index(t, registrytest.IndexOptions{}, children...))
	made, err := create(t, manifold.CreateOptions{
		Sources: []ref.Location{location(t, r.Reference("src", "win"))}, Annotations: map[string]string{"a": "b"}, DryRun: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	idx, err := oci.ParseIndex(made.Index)
	if err != nil || len(idx.Manifests) != 2 || idx.Manifests[0].Platform.OSVersion != "10.0.17763.1" || idx.Manifests[1].Platform.OSVersion != "10.0.20348.1" {
		t.Errorf("%v\n%s", err, made.Index.Bytes)
	}
}
