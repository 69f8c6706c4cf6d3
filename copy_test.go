package manifold_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// eightBySix is an index of eight images of six layers, two of which they share:
// 8 configs, 34 layers and 9 manifests.
func eightBySix(t *testing.T) registrytest.Content {
	t.Helper()
	var images []registrytest.Content
	for _, p := range eight {
		images = append(images, registrytest.Image(t, p, registrytest.ImageOptions{Layers: 6, Shared: 2}))
	}
	return registrytest.Index(t, registrytest.IndexOptions{}, images...)
}

// twoByTwo is a small index: 2 configs and 3 layers, 3 manifests.
func twoByTwo(t *testing.T) registrytest.Content {
	t.Helper()
	var images []registrytest.Content
	for _, p := range eight[:2] {
		images = append(images, registrytest.Image(t, p, registrytest.ImageOptions{Layers: 2, Shared: 1}))
	}
	return registrytest.Index(t, registrytest.IndexOptions{}, images...)
}

func copied(t *testing.T, m *manifold.Manifold, o manifold.CopyOptions) manifold.Copied {
	t.Helper()
	made, err := m.Copy(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// same fails unless a repository has every manifest byte for byte, and every
// blob.
func same(t *testing.T, r *registrytest.Registry, repo string, c registrytest.Content) {
	t.Helper()
	for _, m := range c.Manifests() {
		if got, ok := r.Manifest(repo, m.Digest.String()); !ok || !bytes.Equal(got.Bytes, m.Bytes) {
			t.Errorf("%s@%s: there %v, bytes %q", repo, m.Digest, ok, got.Bytes)
		}
	}
	for _, b := range c.AllBlobs() {
		if !r.HasBlob(repo, b.Digest) {
			t.Errorf("%s: blob %s is not there", repo, b.Digest)
		}
	}
}

// TestCopyToFreshRegistryRequests is the floor: POST and PUT per blob, a PUT per
// manifest, each read back before the tag and after, and the tag itself. Others
// need 144 (regctl, buildx) to 226 (skopeo), and read nothing back.
func TestCopyToFreshRegistryRequests(t *testing.T) {
	image := eightBySix(t)
	from := registrytest.Distribution(t)
	from.Push("src", "1", image)
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		m := manifold.New(manifold.Options{})
		made := copied(t, m, manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, r.Reference("dst", "1"))}})
		const blobs, manifests = 42, 9
		want := counted{head: 1, post: blobs, put: blobs + manifests + 1, get: 2 * manifests, total: 113}
		if r.Kind == "referrers" {
			want.get, want.total = want.get+1, want.total+1 // see TestCreateSameRepositoryRequests
		}
		if got := count(r); got != want {
			t.Errorf("requests %+v, want %+v\n%s", got, want, r.Transcript())
		}
		if got := r.Tags("dst")["1"]; got != image.Digest() || made.Receipt.Digest != image.Digest() {
			t.Errorf("tag names %s, receipt %s, want %s", got, made.Receipt.Digest, image.Digest())
		}
		same(t, r, "dst", image)

		// Again: nothing is written, everything is looked at.
		r.Reset()
		again := copied(t, m, manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, r.Reference("dst", "1"))}})
		if got, want := count(r), (counted{head: 1 + 8 + blobs, total: 1 + 8 + blobs}); got != want || !again.Receipt.Unchanged {
			t.Errorf("requests %+v, want %+v; unchanged %v\n%s", got, want, again.Receipt.Unchanged, r.Transcript())
		}
	})
}

// TestCopyWithTokensRequests: one challenge and one token on top of the floor,
// also where blobs are mounted from another repository.
func TestCopyWithTokensRequests(t *testing.T) {
	image := twoByTwo(t)
	r := registrytest.Distribution(t, registrytest.TokenAuth(registrytest.TokenOptions{}))
	from := registrytest.Distribution(t)
	from.Push("src", "1", image)
	r.Push("src", "1", image)
	for name, source := range map[string]*registrytest.Registry{"uploaded": from, "mounted": r} {
		r.Reset()
		tokens := len(r.TokenRequests())
		copied(t, manifold.New(manifold.Options{}), manifold.CopyOptions{
			Source: location(t, source.Reference("src", "1")), Targets: []ref.Location{location(t, r.Reference(name, "1"))},
		})
		refused := r.Count(registrytest.Filter{Status: 401})
		written := r.Count(registrytest.Filter{Path: "/v2/" + name + "/"}) - r.Count(registrytest.Filter{Path: "/v2/" + name + "/", Status: 401})
		want := 5*2 + 3 + 3 + 3 + 2 // blobs, manifests, read backs, tag
		if source == r {
			want -= 5 // one POST per blob
		}
		if tokens = len(r.TokenRequests()) - tokens; written != want || refused > 2 || tokens > 2 {
			t.Errorf("%s: %d requests, want %d; %d refused, %d tokens\n%s", name, written, want, refused, tokens, r.Transcript())
		}
		same(t, r, name, image)
	}
}

// TestCopyReadsEachManifestOfTheSourceOnce: one request by tag, the rest by
// digest, one blob each.
func TestCopyReadsEachManifestOfTheSourceOnce(t *testing.T) {
	image := eightBySix(t)
	from, r := registrytest.Distribution(t), registrytest.Distribution(t)
	from.Push("src", "1", image)
	from.Reset()
	copied(t, manifold.New(manifold.Options{}), manifold.CopyOptions{
		Source:  location(t, from.Reference("src", "1")),
		Targets: []ref.Location{location(t, r.Reference("a", "1")), location(t, r.Reference("a", "2"))},
	})
	if got, want := count(from), (counted{get: 9 + 42, total: 9 + 42}); got != want {
		t.Errorf("requests %+v, want %+v", got, want)
	}
	if n := from.Count(registrytest.Filter{Path: "/manifests/1$"}); n != 1 {
		t.Errorf("the tag was read %d times", n)
	}
}

// TestCopyOnOneHostMovesNoBlobBytes: mounts.
func TestCopyOnOneHostMovesNoBlobBytes(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		if !r.Features.Mounts {
			t.Skip("does not mount")
		}
		image := twoByTwo(t)
		r.Push("src", "1", image)
		r.Reset()
		made := copied(t, manifold.New(manifold.Options{}), manifold.CopyOptions{
			Source: location(t, r.Reference("src", "1")), Targets: []ref.Location{location(t, r.Reference("dst", "1"))},
		})
		if n := r.Count(registrytest.Filter{Path: "/blobs/"}); n != 5 || made.Receipt.Blobs.Mounted != 5 {
			t.Errorf("%d requests for 5 blobs, %d mounted", n, made.Receipt.Blobs.Mounted)
		}
		var sent int64
		for _, q := range r.Find(registrytest.Filter{Path: "/blobs/"}) {
			sent += q.Sent + q.Received
		}
		if sent != 0 {
			t.Errorf("%d bytes of blobs moved", sent)
		}
		same(t, r, "dst", image)
	})
}

// TestCopyRepairsWhatIsBroken: a destination that has the tag is not whole for
// that. crane says "existing manifest" and does nothing, as does regctl.
func TestCopyRepairsWhatIsBroken(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		image := twoByTwo(t)
		from := registrytest.Distribution(t)
		from.Push("src", "1", image)
		o := manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, r.Reference("dst", "1"))}}
		m := manifold.New(manifold.Options{})
		copied(t, m, o)
		for name, breakIt := range map[string]func(){
			"child": func() { r.RemoveManifest("dst", image.Children[0].Digest()) },
			"blob":  func() { r.RemoveBlob("dst", image.Children[1].Blobs[0].Digest) },
		} {
			breakIt()
			made := copied(t, m, o)
			if made.Receipt.Unchanged || len(made.Receipt.Written) == 0 {
				t.Errorf("%s: nothing was repaired", name)
			}
			same(t, r, "dst", image)
			if tag := made.Receipt.Tags[0]; tag.Fate != "unchanged" {
				t.Errorf("%s: the tag was %s", name, tag.Fate)
			}
		}
	})
}

// TestCopyOfAnythingKeepsEveryByte: single images, artifacts, nested indexes,
// BuildKit's cache, foreign layouts of JSON.
func TestCopyOfAnythingKeepsEveryByte(t *testing.T) {
	image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Style: registrytest.Style{Indent: "\t"}, Layers: 2})
	docker := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Docker: true, Style: registrytest.Style{Indent: "   ", Newline: true}})
	artifact := registrytest.Artifact(t, registrytest.ArtifactOptions{})
	inner := registrytest.Index(t, registrytest.IndexOptions{Style: registrytest.Style{CRLF: true, Indent: " "}}, image, docker)
	contents := map[string]registrytest.Content{
		"image": image, "docker": docker, "artifact": artifact,
		"attested": registrytest.Index(t, registrytest.IndexOptions{}, image, registrytest.Attestation(t, image)),
		"nested":   registrytest.Index(t, registrytest.IndexOptions{Extra: map[string]any{"x": 1}}, inner, artifact),
		"list":     registrytest.Index(t, registrytest.IndexOptions{Docker: true}, docker),
		"cache":    cache(t),
	}
	for name, c := range contents {
		t.Run(name, func(t *testing.T) {
			from, r := registrytest.Distribution(t), registrytest.Distribution(t)
			if len(c.Blobs) > 0 && oci.IsIndex(c.Root.MediaType) { // refused by Distribution
				from, r = registrytest.WithReferrers(t), registrytest.WithReferrers(t)
			}
			for _, b := range c.Blobs {
				from.PushBlob("src", b)
			}
			from.Push("src", "1", c)
			dir, file := filepath.Join(t.TempDir(), "dir"), filepath.Join(t.TempDir(), "image.tar")
			m := manifold.New(manifold.Options{})
			t.Cleanup(func() { _ = m.Close() })
			// From the registry to a directory, from there to an archive, from there
			// to another registry.
			for _, step := range [][2]string{
				{from.Reference("src", "1"), "oci:" + dir + ":1"},
				{"oci:" + dir + ":1", "oci-archive:" + file + ":2"},
				{"oci-archive:" + file + ":2", r.Reference("dst", "3")},
			} {
				made := copied(t, m, manifold.CopyOptions{Source: location(t, step[0]), Targets: []ref.Location{location(t, step[1])}})
				if made.Receipt.Digest != c.Digest() || len(made.Receipt.Tags) != 1 || made.Receipt.Tags[0].Fate != "moved" {
					t.Errorf("%s: %+v", step[1], made.Receipt)
				}
			}
			same(t, r, "dst", c)
			if got := r.Tags("dst")["3"]; got != c.Digest() {
				t.Errorf("tag names %s, want %s", got, c.Digest())
			}
		})
	}
}

// cache is what BuildKit exports with type=registry: an index of blobs.
func cache(t *testing.T) registrytest.Content {
	t.Helper()
	layer := oci.NewBlob("application/vnd.oci.image.layer.v1.tar+gzip", []byte("a layer"))
	config := oci.NewBlob("application/vnd.buildkit.cacheconfig.v0", []byte(`{"layers":[]}`))
	entry := func(b oci.Blob) string {
		return `{"mediaType":"` + b.MediaType + `","digest":"` + b.Digest.String() + `","size":` + strconv.FormatInt(b.Size, 10) + `}`
	}
	root := oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+entry(layer)+`,`+entry(config)+`]}`))
	return registrytest.Content{Root: root, Blobs: []oci.Blob{layer, config}}
}

// TestCopyOfALayoutWithHolesWritesNothing names what is missing per platform.
func TestCopyOfALayoutWithHolesWritesNothing(t *testing.T) {
	image := registrytest.Index(t, registrytest.IndexOptions{},
		registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}),
		registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Layers: 2}),
		registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	r := registrytest.Distribution(t)
	r.Push("src", "1", image)
	dir := filepath.Join(t.TempDir(), "dir")
	m := manifold.New(manifold.Options{})
	copied(t, m, manifold.CopyOptions{Source: location(t, r.Reference("src", "1")), Targets: []ref.Location{location(t, "oci:"+dir+":1")}})
	gone := []registrytest.Content{image.Children[1], image.Children[2]}
	for _, path := range []string{gone[0].Blobs[0].Digest.Encoded(), gone[0].Blobs[2].Digest.Encoded(), gone[1].Digest().Encoded()} {
		if err := os.Remove(filepath.Join(dir, "blobs", "sha256", path)); err != nil {
			t.Fatal(err)
		}
	}
	r.Reset()
	o := manifold.CopyOptions{Source: location(t, "oci:"+dir+":1"), Targets: []ref.Location{location(t, r.Reference("dst", "1"))}}
	_, err := m.Copy(t.Context(), o)
	var incomplete *manifold.IncompleteError
	if !errors.As(err, &incomplete) {
		t.Fatalf("error is %v", err)
	}
	want := []manifold.Missing{
		{What: "manifest", Digest: gone[1].Digest(), Of: "linux/s390x"},
		{What: "config", Digest: gone[0].Blobs[0].Digest, Of: "linux/arm64"},
		{What: "layer", Digest: gone[0].Blobs[2].Digest, Of: "linux/arm64"},
	}
	if diff := cmp.Diff(want, incomplete.Missing); diff != "" {
		t.Error(diff)
	}
	if n := r.Count(registrytest.Filter{}); n != 0 {
		t.Errorf("%d requests\n%s", n, r.Transcript())
	}
	// What is there can be had by naming it.
	o.Platforms = []oci.Platform{{OS: "linux", Architecture: "amd64"}}
	made := copied(t, m, o)
	if got := r.Summary("dst"); got != "index 1 manifest 1" || made.Receipt.Digest == image.Digest() {
		t.Errorf("%s, digest %s", got, made.Receipt.Digest)
	}
}

func TestCopyOntoItselfIsRefused(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("src", "latest", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
	dir := t.TempDir()
	for _, pair := range [][2]string{
		{r.Reference("src", ""), r.Reference("src", "latest")},
		{"oci:" + dir + ":1", "oci:" + dir + "/../" + filepath.Base(dir) + ":1"},
		{"oci-archive:" + dir + "/a.tar:1", "oci-archive:" + dir + "/a.tar:2"},
	} {
		r.Reset()
		_, err := manifold.New(manifold.Options{}).Copy(t.Context(), manifold.CopyOptions{Source: location(t, pair[0]), Targets: []ref.Location{location(t, pair[1])}})
		var itself *manifold.SameError
		if !errors.As(err, &itself) || r.Count(registrytest.Filter{}) > 0 {
			t.Errorf("%v: %v, %d requests", pair, err, r.Count(registrytest.Filter{}))
		}
	}
}

// signed pushes an index with referrers: a signature of the index, one of a
// child, and an attestation of the first signature.
func signed(t *testing.T, r *registrytest.Registry, repo string) (image registrytest.Content, referrers []registrytest.Content) {
	t.Helper()
	child := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	image = registrytest.Index(t, registrytest.IndexOptions{}, child, registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{}))
	of := func(c registrytest.Content, data string) registrytest.Content {
		d := c.Root.Descriptor
		return registrytest.Artifact(t, registrytest.ArtifactOptions{Subject: &d, Data: data, Type: "application/vnd.example." + data})
	}
	first := of(image, "signature")
	referrers = []registrytest.Content{first, of(child, "sbom"), of(first, "countersignature")}
	r.Push(repo, "1", image)
	for _, c := range referrers {
		r.Push(repo, "", c)
	}
	return image, referrers
}

func TestCopyCarriesReferrersOfEverything(t *testing.T) {
	from, to := registrytest.WithReferrers(t), registrytest.WithReferrers(t)
	image, referrers := signed(t, from, "src")
	m := manifold.New(manifold.Options{Lag: time.Nanosecond})
	o := manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, to.Reference("dst", "1"))}}
	copied(t, m, o)
	if got := to.Summary("dst"); got != "index 1 manifest 2" {
		t.Errorf("without being asked: %s", got)
	}
	o.Referrers = true
	made := copied(t, m, o)
	for _, c := range append(referrers, image) {
		same(t, to, "dst", c)
	}
	if n := len(made.Images[0].Referrers); n != len(referrers) {
		t.Errorf("%d referrers", n)
	}
	repo := registry.NewClient(registry.Options{}).Repository(reference(t, to.Reference("dst", "1")))
	for i, subject := range []registrytest.Content{image, image.Children[0], referrers[0]} {
		got, err := repo.Referrers(t.Context(), subject.Digest())
		if err != nil || len(got) != 1 || got[0].Digest != referrers[i].Digest() {
			t.Errorf("referrers of %s: %v, %v", subject.Digest(), got, err)
		}
	}
	if len(to.Tags("dst")) != 1 {
		t.Errorf("tags %v", to.Tags("dst"))
	}
	if again := copied(t, m, o); !again.Receipt.Unchanged {
		t.Errorf("a second time: %v", again.Receipt.Written)
	}
}

func TestReferrersWithoutAnAPIAreRefusedOrTagged(t *testing.T) {
	from, to := registrytest.WithReferrers(t), registrytest.Distribution(t)
	image, referrers := signed(t, from, "src")
	m := manifold.New(manifold.Options{})
	o := manifold.CopyOptions{Referrers: true, Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, to.Reference("dst", "1"))}}
	_, err := m.Copy(t.Context(), o)
	var refused *manifold.ReferrersError
	if !errors.As(err, &refused) || to.Summary("dst") != "" {
		t.Fatalf("error %v, stored %q", err, to.Summary("dst"))
	}
	// Another signature is listed there by a tag already, and stays listed.
	d := image.Root.Descriptor
	other := registrytest.Artifact(t, registrytest.ArtifactOptions{Subject: &d, Data: "other"})
	tag := "sha256-" + image.Digest().Encoded()
	to.Push("dst", tag, registrytest.Index(t, registrytest.IndexOptions{}, other))
	o.FallbackTags = true
	copied(t, m, o)
	repo := registry.NewClient(registry.Options{}).Repository(reference(t, to.Reference("dst", "1")))
	for i, subject := range []registrytest.Content{image, image.Children[0], referrers[0]} {
		got, err := repo.Referrers(t.Context(), subject.Digest())
		if err != nil || !slices.ContainsFunc(got, func(x oci.Descriptor) bool { return x.Digest == referrers[i].Digest() }) {
			t.Errorf("referrers of %s: %v, %v", subject.Digest(), got, err)
		}
		if i == 0 && (len(got) != 2 || got[0].Digest != other.Digest()) {
			t.Errorf("the other signature: %v", got)
		}
	}
	if again := copied(t, m, o); !again.Receipt.Unchanged {
		t.Errorf("a second time: %v", again.Receipt.Written)
	}
}

// TestReferrersSurviveALayout: out to an archive, and back into a registry.
func TestReferrersSurviveALayout(t *testing.T) {
	from, to := registrytest.WithReferrers(t), registrytest.WithReferrers(t)
	image, referrers := signed(t, from, "src")
	file := filepath.Join(t.TempDir(), "image.tar")
	m := manifold.New(manifold.Options{})
	t.Cleanup(func() { _ = m.Close() })
	copied(t, m, manifold.CopyOptions{Referrers: true, Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, "oci-archive:"+file+":1")}})
	l, err := layout.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := l.Referrers(t.Context(), image.Digest()); err != nil || len(got) != 1 {
		t.Errorf("in the archive: %v, %v", got, err)
	}
	copied(t, m, manifold.CopyOptions{Referrers: true, Source: location(t, "oci-archive:"+file+":1"), Targets: []ref.Location{location(t, to.Reference("dst", "1"))}})
	for _, c := range append(referrers, image) {
		same(t, to, "dst", c)
	}
}

func TestCosignTagsGoAlongWhenAsked(t *testing.T) {
	from, to := registrytest.Distribution(t), registrytest.Distribution(t)
	image := registrytest.Index(t, registrytest.IndexOptions{}, registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
	from.Push("src", "1", image)
	var want []string
	for _, tag := range []string{"sha256-" + image.Digest().Encoded() + ".sig", "sha256-" + image.Children[0].Digest().Encoded() + ".att"} {
		from.Push("src", tag, registrytest.Artifact(t, registrytest.ArtifactOptions{Data: tag}))
		want = append(want, tag)
	}
	from.Push("src", "sha256-"+strings.Repeat("0", 64)+".sig", registrytest.Artifact(t, registrytest.ArtifactOptions{Data: "of another image"}))
	o := manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, to.Reference("dst", "1"))}}
	copied(t, manifold.New(manifold.Options{}), o)
	if len(to.Tags("dst")) != 1 {
		t.Errorf("without being asked: %v", to.Tags("dst"))
	}
	o.Cosign = true
	made := copied(t, manifold.New(manifold.Options{}), o)
	slices.Sort(want)
	if diff := cmp.Diff(want, made.Images[0].Cosign); diff != "" || len(to.Tags("dst")) != 3 {
		t.Errorf("%v\n%s", to.Tags("dst"), diff)
	}
}

// TestAllTagsMoveAfterAllContent: every tag of a repository, whatever it names.
func TestAllTagsMoveAfterAllContent(t *testing.T) {
	from, to := registrytest.Distribution(t), registrytest.Docker28(t)
	amd, arm := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}), registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})
	index := registrytest.Index(t, registrytest.IndexOptions{}, amd, arm)
	want := map[string]registrytest.Content{"1.0": index, "1.0-amd64": amd, "latest": index, "thing": registrytest.Artifact(t, registrytest.ArtifactOptions{})}
	for tag, c := range want {
		from.Push("src", tag, c)
	}
	dir := filepath.Join(t.TempDir(), "mirror")
	m := manifold.New(manifold.Options{})
	t.Cleanup(func() { _ = m.Close() })
	o := manifold.CopyOptions{AllTags: true, Source: location(t, from.Reference("src", "")), Targets: []ref.Location{location(t, to.Reference("dst", "")), location(t, "oci:"+dir)}}
	made := copied(t, m, o)
	tags := to.Tags("dst")
	for tag, c := range want {
		if tags[tag] != c.Digest() {
			t.Errorf("%s names %s, want %s", tag, tags[tag], c.Digest())
		}
		same(t, to, "dst", c)
	}
	if len(tags) != len(want) || len(made.Images) != len(want) || len(made.Receipt.Tags) != 2*len(want) {
		t.Errorf("tags %v, images %v", tags, made.Images)
	}
	names, err := m.Tags(t.Context(), location(t, "oci:"+dir))
	if diff := cmp.Diff([]string{"1.0", "1.0-amd64", "latest", "thing"}, names); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	log := to.Transcript()
	first := strings.Index(log, "PUT /v2/dst/manifests/1.0 ")
	if last := strings.LastIndex(log, "PUT /v2/dst/manifests/sha256:"); first < last || first < 0 {
		t.Errorf("a tag moved before content was there\n%s", log)
	}
	// A pattern chooses.
	o.Tags, o.Targets = []string{"1.*"}, []ref.Location{location(t, to.Reference("some", ""))}
	copied(t, m, o)
	if got := to.Tags("some"); len(got) != 2 || got["1.0"] == "" || got["1.0-amd64"] == "" {
		t.Errorf("by pattern: %v", got)
	}
}

// TestCopyOfADeepChainIsRefused: fifty indexes in each other are an attack or a
// mistake.
func TestCopyOfADeepChainIsRefused(t *testing.T) {
	from, to := registrytest.Distribution(t), registrytest.Distribution(t)
	c := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	for range 50 {
		c = registrytest.Index(t, registrytest.IndexOptions{}, c)
	}
	from.Push("src", "1", c)
	_, err := manifold.New(manifold.Options{}).Copy(t.Context(), manifold.CopyOptions{
		Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{location(t, to.Reference("dst", "1"))},
	})
	var deep *oci.DepthError
	if got := count(to); !errors.As(err, &deep) || got.put+got.post != 0 {
		t.Errorf("error %v, requests %+v", err, got)
	}
}

// TestCopyOneTargetFailsNoTagMoves: content everywhere first, then the tags.
func TestCopyOneTargetFailsNoTagMoves(t *testing.T) {
	image := twoByTwo(t)
	from, good, bad := registrytest.Distribution(t), registrytest.Distribution(t), registrytest.Distribution(t)
	from.Push("src", "1", image)
	bad.Fault(registrytest.Fault{Method: "PUT", Path: "/manifests/" + image.Digest().String(), Status: 403, Body: `{"errors":[{"code":"DENIED"}]}`})
	file := filepath.Join(t.TempDir(), "image.tar")
	m := manifold.New(manifold.Options{})
	o := manifold.CopyOptions{Source: location(t, from.Reference("src", "1")), Targets: []ref.Location{
		location(t, good.Reference("dst", "1")), location(t, bad.Reference("dst", "1")), location(t, "oci-archive:"+file+":1"),
	}}
	made, err := m.Copy(t.Context(), o)
	if err == nil || len(good.Tags("dst")) != 0 || len(bad.Tags("dst")) != 0 {
		t.Errorf("error %v, tags %v and %v", err, good.Tags("dst"), bad.Tags("dst"))
	}
	for _, tag := range made.Receipt.Tags {
		if tag.Fate != "untried" {
			t.Errorf("%s is %s", tag.Reference, tag.Fate)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*")); len(left) > 0 || err != nil {
		t.Errorf("left behind: %v, %v", left, err)
	}
	if made := copied(t, manifold.New(manifold.Options{}), o); len(made.Receipt.Tags) != 3 {
		t.Errorf("a second time: %+v", made.Receipt.Tags)
	}
}

// TestDeleteTagLeavesEverythingElse.
func TestDeleteTagLeavesEverythingElse(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		c := registrytest.Index(t, registrytest.IndexOptions{}, registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}))
		r.Push("app", "1", c)
		r.Push("app", "2", c)
		m := manifold.New(manifold.Options{})
		deleted, err := m.DeleteTag(t.Context(), location(t, r.Reference("app", "1")))
		left := r.Tags("app")
		switch {
		case !r.Features.TagDelete:
			if !registry.TagsStay(err) || len(left) != 2 {
				t.Errorf("error %v, tags %v", err, left)
			}
		case err != nil || deleted.Digest != c.Digest() || deleted.Gone || len(left) != 1:
			t.Errorf("%+v, %v, tags %v", deleted, err, left)
		}
		same(t, r, "app", c)
		if _, err := m.DeleteTag(t.Context(), location(t, r.Reference("app", "")+"@"+c.Digest().String())); err == nil {
			t.Error("a digest was deleted by way of delete")
		}
	})
}
