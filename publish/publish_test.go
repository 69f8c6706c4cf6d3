package publish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

var errAbsent = errors.New("absent")

// fakeRepository answers from maps and logs what it is asked.
type fakeRepository struct {
	tags      map[string]oci.Blob
	manifests map[digest.Digest]oci.Blob
	err       error
	asked     *asked
}

// asked is a log of questions.
type asked struct {
	mu  sync.Mutex
	all []string
}

func (a *asked) add(question string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, question)
}

func (f fakeRepository) Resolve(_ context.Context, id string) (oci.Descriptor, error) {
	f.asked.add("HEAD " + id)
	if f.err != nil {
		return oci.Descriptor{}, f.err
	}
	if b, ok := f.tags[id]; ok {
		return b.Descriptor, nil
	}
	if b, ok := f.manifests[digest.Digest(id)]; ok {
		return b.Descriptor, nil
	}
	return oci.Descriptor{}, errAbsent
}

func (f fakeRepository) FetchManifest(_ context.Context, d oci.Descriptor) (oci.Blob, error) {
	f.asked.add("GET " + d.Digest.String())
	for _, b := range f.tags {
		if b.Digest == d.Digest {
			return b, nil
		}
	}
	return oci.Blob{}, errAbsent
}

func image(platform string) oci.Blob {
	layer := digest.FromString("layer " + platform)
	config := digest.FromString("config " + platform)
	return oci.NewBlob(oci.MediaTypeManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":10},"layers":[{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":%q,"size":100},{"mediaType":"application/vnd.oci.image.layer.v1.tar+gzip","digest":%q,"size":7}]}`,
		oci.MediaTypeManifest, oci.MediaTypeConfig, config, layer, digest.FromString("shared layer")))
}

func attestation(subject oci.Blob) oci.Blob {
	return oci.NewBlob(oci.MediaTypeManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":3},"layers":[],"subject":{"mediaType":%q,"digest":%q,"size":%d}}`,
		oci.MediaTypeManifest, oci.MediaTypeConfig, digest.FromString("att config"), subject.MediaType, subject.Digest, subject.Size))
}

func entry(b oci.Blob, platform string) ocispec.Descriptor {
	os, arch, _ := strings.Cut(platform, "/")
	return ocispec.Descriptor{MediaType: b.MediaType, Digest: b.Digest, Size: b.Size, Platform: &ocispec.Platform{OS: os, Architecture: arch}}
}

func attests(b, subject oci.Blob) ocispec.Descriptor {
	d := entry(b, "unknown/unknown")
	d.Annotations = map[string]string{oci.AnnotationReferenceType: "attestation-manifest", oci.AnnotationReferenceDigest: subject.Digest.String()}
	return d
}

func indexOf(t *testing.T, entries ...ocispec.Descriptor) oci.Blob {
	t.Helper()
	v := ocispec.Index{MediaType: oci.MediaTypeIndex, Manifests: entries}
	v.SchemaVersion = 2
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return oci.NewBlob(oci.MediaTypeIndex, b)
}

// twoPlatforms is an index of two images that are at a place.
func twoPlatforms(t *testing.T, at ...string) (Content, oci.Blob, oci.Blob) {
	a, b := image("linux/amd64"), image("linux/arm64")
	return Content{
		Root:      indexOf(t, entry(a, "linux/amd64"), entry(b, "linux/arm64")),
		Manifests: []Manifest{{Blob: a, At: at, Seen: at}, {Blob: b, At: at, Seen: at}},
	}, a, b
}

func makePlan(t *testing.T, c Content, repo fakeRepository, targets ...string) (plan.Plan, []string, error) {
	t.Helper()
	repo.asked = &asked{}
	o := Options{
		Verb: "test", Open: func(ref.Reference) Prober { return repo },
		Absent: func(err error) bool { return errors.Is(err, errAbsent) },
	}
	for _, s := range targets {
		r, err := ref.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		o.Targets = append(o.Targets, r)
	}
	p, err := Make(t.Context(), c, o)
	slices.Sort(repo.asked.all)
	return p, repo.asked.all, err
}

// ops lists the operations of a plan with what they touch, in order.
func ops(p plan.Plan, names map[digest.Digest]string) []string {
	var out []string
	for _, s := range p.Steps {
		what := names[s.Digest]
		if what == "" {
			what = "blob"
		}
		if s.Tag != "" {
			what = s.Tag
		}
		out = append(out, fmt.Sprintf("%s %s %s", s.Target, s.Op, what))
	}
	return out
}

func TestSameRepositoryNeedsOnlyTheIndex(t *testing.T) {
	c, a, b := twoPlatforms(t, "r.test/app")
	p, asked, err := makePlan(t, c, fakeRepository{}, "r.test/app:1", "r.test/app:latest")
	if err != nil {
		t.Fatal(err)
	}
	names := map[digest.Digest]string{c.Root.Digest: "index", a.Digest: "amd64", b.Digest: "arm64"}
	want := []string{
		"r.test/app put manifest index",
		"r.test/app read back index",
		"r.test/app move tag 1",
		"r.test/app move tag latest",
		"r.test/app confirm amd64",
		"r.test/app confirm arm64",
		"r.test/app confirm tag 1",
		"r.test/app confirm tag latest",
	}
	if diff := cmp.Diff(want, ops(p, names)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"HEAD 1", "HEAD latest"}, asked); diff != "" {
		t.Errorf("one question per tag and no other: %s", diff)
	}
}

func TestOtherRepositoryGetsContentChildrenFirst(t *testing.T) {
	c, a, b := twoPlatforms(t, "r.test/src")
	p, _, err := makePlan(t, c, fakeRepository{}, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	names := map[digest.Digest]string{c.Root.Digest: "index", a.Digest: "amd64", b.Digest: "arm64"}
	want := []string{
		"r.test/app copy blob blob", "r.test/app copy blob blob", "r.test/app copy blob blob",
		"r.test/app put manifest amd64",
		"r.test/app copy blob blob", "r.test/app copy blob blob", // the shared layer is asked for once
		"r.test/app put manifest arm64",
		"r.test/app put manifest index",
		"r.test/app read back amd64", "r.test/app read back arm64", "r.test/app read back index",
		"r.test/app move tag 1", "r.test/app confirm amd64", "r.test/app confirm arm64",
		"r.test/app confirm tag 1",
	}
	if diff := cmp.Diff(want, ops(p, names)); diff != "" {
		t.Error(diff)
	}
	for _, s := range p.Steps {
		if s.Op == plan.CopyBlob && !slices.Equal(s.From, []string{"r.test/src"}) {
			t.Errorf("%s: from %v", s.ID, s.From)
		}
	}
}

// TestAttestationAfterItsSubject: registries that check the subject
// refuse an attestation that comes first, whatever the index lists first.
func TestAttestationAfterItsSubject(t *testing.T) {
	a := image("linux/amd64")
	att := attestation(a)
	c := Content{
		Root:      indexOf(t, attests(att, a), entry(a, "linux/amd64")),
		Manifests: []Manifest{{Blob: att, At: []string{"r.test/src"}}, {Blob: a, At: []string{"r.test/src"}}},
	}
	p, _, err := makePlan(t, c, fakeRepository{}, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	puts := map[digest.Digest]plan.Step{}
	for _, s := range p.Steps {
		if s.Op == plan.PutManifest {
			puts[s.Digest] = s
		}
	}
	if !slices.Contains(puts[att.Digest].After, puts[a.Digest].ID) {
		t.Errorf("attestation waits for %v, not for its image %s", puts[att.Digest].After, puts[a.Digest].ID)
	}
	if !slices.Contains(puts[c.Root.Digest].After, puts[att.Digest].ID) {
		t.Error("index does not wait for the attestation")
	}
}

// TestTagsWaitForEveryHost: no tag moves anywhere before the content
// is everywhere and read back.
func TestTagsWaitForEveryHost(t *testing.T) {
	c, _, _ := twoPlatforms(t, "src.test/app")
	p, _, err := makePlan(t, c, fakeRepository{}, "one.test/app:1", "two.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	first := p.TagMoves()[0]
	for _, s := range p.Steps {
		if (s.Op == plan.PutManifest || s.Op == plan.ReadBack) && !slices.Contains(first.After, s.ID) {
			t.Errorf("the first tag does not wait for %s", s.ID)
		}
	}
	if second := p.TagMoves()[1]; !slices.Equal(second.After, []string{first.ID}) {
		t.Errorf("the second tag waits for %v, want the first", second.After)
	}
}

func TestNothingToDoWhenAllIsThere(t *testing.T) {
	c, a, b := twoPlatforms(t, "src.test/app")
	repo := fakeRepository{
		tags:      map[string]oci.Blob{"1": c.Root},
		manifests: map[digest.Digest]oci.Blob{a.Digest: a, b.Digest: b},
	}
	p, _, err := makePlan(t, c, repo, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Steps) != 0 {
		t.Errorf("steps %v", ops(p, nil))
	}
}

func TestRightTagOverMissingChildIsRepaired(t *testing.T) {
	c, a, b := twoPlatforms(t, "src.test/app")
	repo := fakeRepository{
		tags:      map[string]oci.Blob{"1": c.Root},
		manifests: map[digest.Digest]oci.Blob{a.Digest: a},
	}
	p, _, err := makePlan(t, c, repo, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	names := map[digest.Digest]string{c.Root.Digest: "index", a.Digest: "amd64", b.Digest: "arm64"}
	want := []string{
		"r.test/app copy blob blob", "r.test/app copy blob blob", "r.test/app copy blob blob",
		"r.test/app put manifest arm64", "r.test/app read back arm64",
	}
	if diff := cmp.Diff(want, ops(p, names)); diff != "" {
		t.Error(diff)
	}
}

// TestShrinkingTagIsAnnounced: a publish that takes platforms away says so.
func TestShrinkingTagIsAnnounced(t *testing.T) {
	before, _, _ := twoPlatforms(t)
	a := image("linux/amd64")
	c := Content{Root: indexOf(t, entry(a, "linux/amd64")), Manifests: []Manifest{{Blob: a, At: []string{"r.test/app"}, Seen: []string{"r.test/app"}}}}
	p, _, err := makePlan(t, c, fakeRepository{tags: map[string]oci.Blob{"1": before.Root}}, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "loses linux/arm64") || !strings.Contains(p.Warnings[0], before.Root.Digest.String()) {
		t.Errorf("warnings %q", p.Warnings)
	}
	if move := p.TagMoves()[0]; move.Previous != before.Root.Digest {
		t.Errorf("previous %s", move.Previous)
	}
	if _, ok := p.Manifest(before.Root.Digest); !ok {
		t.Error("the previous content is not in the plan, it could not be restored")
	}
}

func TestCouldNotAskStops(t *testing.T) {
	c, _, _ := twoPlatforms(t, "r.test/app")
	denied := errors.New("401")
	if _, _, err := makePlan(t, c, fakeRepository{err: denied}, "r.test/app:1"); !errors.Is(err, denied) {
		t.Errorf("err %v", err)
	}
}

func TestRefused(t *testing.T) {
	whole, a, _ := twoPlatforms(t, "r.test/app")
	for name, tt := range map[string]struct {
		content Content
		targets []string
		want    string
	}{
		"hole":           {Content{Root: whole.Root, Manifests: whole.Manifests[:1]}, []string{"r.test/app:1"}, "refers to"},
		"not an index":   {Content{Root: a}, []string{"r.test/app:1"}, "is not an index"},
		"no target":      {whole, nil, "no target"},
		"another digest": {whole, []string{"r.test/app@" + a.Digest.String()}, "has digest sha256:"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := makePlan(t, tt.content, fakeRepository{}, tt.targets...)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
		})
	}
}

func TestPlanReadsBackFromJSON(t *testing.T) {
	c, _, _ := twoPlatforms(t, "r.test/src")
	p, _, err := makePlan(t, c, fakeRepository{}, "r.test/app:1")
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var back plan.Plan
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, back); diff != "" {
		t.Error(diff)
	}
	if err := back.Validate(); err != nil {
		t.Error(err)
	}
}
