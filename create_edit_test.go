package manifold_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

var six = []string{"linux/amd64", "linux/arm64", "linux/arm/v7", "linux/s390x", "linux/ppc64le", "linux/riscv64"}

// uneven delays every request by a little, as a network does.
type uneven struct{ most time.Duration }

func (u uneven) RoundTrip(req *http.Request) (*http.Response, error) {
	time.Sleep(rand.N(u.most))
	resp, err := http.DefaultTransport.RoundTrip(req)
	time.Sleep(rand.N(u.most))
	return resp, err
}

// listed are the platforms of the index that a tag names, and the digests of its
// attestations' images that are not in it.
func listed(t *testing.T, r *registrytest.Registry, repo, tag string) (platforms []string, digests map[string]digest.Digest) {
	t.Helper()
	b, ok := r.Manifest(repo, tag)
	if !ok {
		t.Fatalf("%s:%s is not there", repo, tag)
	}
	images, others, err := index.Flatten(b, "")
	if err != nil || len(others) > 0 {
		t.Fatalf("%v, attestations without their image: %v", err, others)
	}
	digests = map[string]digest.Digest{}
	for _, img := range images {
		p := oci.FormatPlatform(*img.Entry.Platform)
		platforms, digests[p] = append(platforms, p), img.Entry.Digest
	}
	slices.Sort(platforms)
	return platforms, digests
}

// Six jobs append one platform each to one tag at the same time, ten times, to
// a tag that is there and to one that is not; all six are in the end.
func TestAppendsThatRaceLoseNothing(t *testing.T) {
	want := slices.Sorted(slices.Values(six))
	for round := range 10 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			t.Parallel()
			r := registrytest.Distribution(t)
			images := map[string]registrytest.Content{}
			for i, p := range six {
				images[p] = registrytest.Image(t, p, registrytest.ImageOptions{})
				img := images[p]
				r.Push("src", fmt.Sprint(i), registrytest.Index(t, registrytest.IndexOptions{}, img, registrytest.Attestation(t, img)))
			}
			jobs := six
			if round%2 == 1 {
				r.Push("app", "1", registrytest.Index(t, registrytest.IndexOptions{}, images[six[0]], registrytest.Attestation(t, images[six[0]])))
				jobs = six[1:]
			}
			var wg sync.WaitGroup
			for _, p := range jobs {
				wg.Go(func() {
					m := manifold.New(manifold.Options{Registry: registry.Options{Transport: uneven{8 * time.Millisecond}}})
					defer m.Close()
					_, err := m.Create(t.Context(), manifold.CreateOptions{
						Sources: []ref.Location{location(t, r.Reference("src", fmt.Sprint(slices.Index(six, p))))},
						Targets: []ref.Reference{reference(t, r.Reference("app", "1"))},
						Edit:    &manifold.Edit{Append: true, CreateMissing: true},
					})
					if err != nil {
						t.Errorf("%s: %v", p, err)
					}
				})
			}
			wg.Wait()
			got, digests := listed(t, r, "app", "1")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			for p, d := range digests {
				if d != images[p].Digest() {
					t.Errorf("%s is %s, want %s", p, d, images[p].Digest())
				}
			}
			b, _ := r.Manifest("app", "1")
			if idx, err := oci.ParseIndex(b); err != nil || len(idx.Manifests) != 2*len(six) {
				t.Errorf("%d entries, %v; want six images and their attestations", len(idx.Manifests), err)
			}
		})
	}
}

// published is an attested index of two platforms under app:1.
func published(t *testing.T, r *registrytest.Registry) (amd, arm registrytest.Content) {
	amd, arm = registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}), registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})
	r.Push("app", "1", registrytest.Index(t, registrytest.IndexOptions{Annotations: map[string]string{"keep": "1"}, Extra: map[string]any{"x-keep": 1}},
		amd, registrytest.Attestation(t, amd), arm, registrytest.Attestation(t, arm)))
	return amd, arm
}

func editing(t *testing.T, r *registrytest.Registry, e manifold.Edit, sources ...string) manifold.CreateOptions {
	o := manifold.CreateOptions{Edit: &e, Targets: []ref.Reference{reference(t, r.Reference("app", "1"))}}
	for _, s := range sources {
		o.Sources = append(o.Sources, location(t, r.Host+"/"+s))
	}
	return o
}

func create(t *testing.T, o manifold.CreateOptions) (manifold.Created, error) {
	m := manifold.New(manifold.Options{})
	defer m.Close()
	return m.Create(t.Context(), o)
}

func TestEditsTakeAttestationsWithTheirImages(t *testing.T) {
	r := registrytest.Distribution(t)
	amd, arm := published(t, r)
	newer := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Text: "newer"})
	r.Push("src", "arm", registrytest.Index(t, registrytest.IndexOptions{}, newer, registrytest.Attestation(t, newer)))

	made, err := create(t, editing(t, r, manifold.Edit{Replace: true}, "src:arm"))
	if err != nil {
		t.Fatal(err)
	}
	idx, err := oci.ParseIndex(made.Index)
	if err != nil {
		t.Fatal(err)
	}
	var got []digest.Digest
	for _, e := range idx.Manifests {
		got = append(got, e.Digest)
	}
	want := []digest.Digest{amd.Digest(), newer.Digest(), registrytest.Attestation(t, amd).Digest(), registrytest.Attestation(t, newer).Digest()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if idx.Annotations["keep"] != "1" || !strings.Contains(string(made.Index.Bytes), `"x-keep"`) {
		t.Errorf("what the index said of itself is lost:\n%s", made.Index.Bytes)
	}

	for name, remove := range map[string]index.Selector{
		"platform": {Platform: oci.Platform{OS: "linux", Architecture: "arm64"}}, "digest": {Digest: arm.Digest()},
	} {
		amd, _ := published(t, r)
		made, err := create(t, editing(t, r, manifold.Edit{Remove: []index.Selector{remove}}))
		if err != nil {
			t.Fatal(name, err)
		}
		idx, err := oci.ParseIndex(made.Index)
		if err != nil || len(idx.Manifests) != 2 || idx.Manifests[0].Digest != amd.Digest() || idx.Manifests[1].Digest != registrytest.Attestation(t, amd).Digest() {
			t.Errorf("by %s: %v\n%s", name, err, made.Index.Bytes)
		}
	}
}

// A second run of an edit, or one that asks for what is there, writes nothing:
// the bytes stay, however they are laid out.
func TestEditThatChangesNothingWritesNothing(t *testing.T) {
	r := registrytest.Distribution(t)
	amd := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	before := r.Push("app", "1", registrytest.Index(t, registrytest.IndexOptions{Style: registrytest.Style{Indent: "\t"}}, registrytest.Attestation(t, amd), amd))
	r.Push("app", "amd", amd)
	r.Reset()
	for _, e := range []manifold.Edit{{Append: true}, {Replace: true}, {Append: true, Replace: true}} {
		o := editing(t, r, e, "app:amd")
		if e.Replace { // an image without attestations would replace one with them
			o.Sources = []ref.Location{location(t, r.Reference("app", "1"))}
		}
		made, err := create(t, o)
		if err != nil || made.Index.Digest != before || !made.Receipt.Unchanged {
			t.Errorf("%+v: %s, %v", e, made.Index.Digest, err)
		}
	}
	if n := r.Count(registrytest.Filter{Method: "PUT"}); n > 0 {
		t.Errorf("%d writes", n)
	}
}

func TestEditsThatCannotBeWriteNothing(t *testing.T) {
	r := registrytest.Distribution(t)
	amd, _ := published(t, r)
	other := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Text: "other"})
	r.Push("src", "amd", other)
	r.Push("src", "s390x", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	r.Reset()
	s390x := oci.Platform{OS: "linux", Architecture: "s390x"}
	var absent *index.AbsentError
	var duplicate *index.DuplicateError
	var base *manifold.BaseError
	check := func(name string, o manifold.CreateOptions, is func(error) bool) {
		t.Helper()
		if _, err := create(t, o); err == nil || !is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	check("append of a platform that is there", editing(t, r, manifold.Edit{Append: true}, "src:amd"), func(err error) bool {
		return errors.As(err, &duplicate) && duplicate.First.Digest == amd.Digest() && duplicate.Second.Digest == other.Digest()
	})
	check("replace of a platform that is not there", editing(t, r, manifold.Edit{Replace: true}, "src:s390x"), func(err error) bool {
		return errors.As(err, &absent) && absent.What == "linux/s390x" && len(absent.Have) == 2
	})
	check("remove of what is not there", editing(t, r, manifold.Edit{Remove: []index.Selector{{Platform: s390x}}}), func(err error) bool { return errors.As(err, &absent) })
	check("remove of a digest that is not there", editing(t, r, manifold.Edit{Remove: []index.Selector{{Digest: other.Digest()}}}), func(err error) bool { return errors.As(err, &absent) })
	check("removing everything", editing(t, r, manifold.Edit{Remove: []index.Selector{{Platform: *amd.Platform}, {Platform: oci.Platform{OS: "linux", Architecture: "arm64"}}}}),
		func(err error) bool { return errors.Is(err, index.ErrEmpty) })
	o := editing(t, r, manifold.Edit{Append: true}, "src:s390x")
	o.Targets = []ref.Reference{reference(t, r.Reference("app", "none"))}
	check("a tag that is not there", o, func(err error) bool { return errors.As(err, &base) })
	check("nothing to append", editing(t, r, manifold.Edit{Append: true}), func(err error) bool { return errors.Is(err, manifold.ErrNoSources) })
	if n := r.Count(registrytest.Filter{Method: "PUT"}) + r.Count(registrytest.Filter{Method: "POST"}); n > 0 {
		t.Errorf("%d writes\n%s", n, r.Transcript())
	}
}

// Two jobs that replace one platform do not undo each other's work for ever:
// the second one is told.
func TestReplacesOfOnePlatformThatRaceAreTold(t *testing.T) {
	r := registrytest.Distribution(t)
	published(t, r)
	theirs := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Text: "theirs"})
	ours := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Text: "ours"})
	r.Push("app", "ours", ours)
	done := make(chan struct{})
	// Between the read of the tag and the look before its write.
	rule := r.Fault(registrytest.Fault{Method: "PUT", Path: "/manifests/sha256:", Hold: done})
	go func() {
		<-rule.Reached()
		r.Push("app", "1", registrytest.Index(t, registrytest.IndexOptions{}, theirs))
		close(done)
	}()
	_, err := create(t, editing(t, r, manifold.Edit{Replace: true}, "app:ours"))
	var conflict *manifold.EditConflictError
	if !errors.As(err, &conflict) || conflict.Found != theirs.Digest() || conflict.Ours != ours.Digest() {
		t.Errorf("%v", err)
	}
	if _, digests := listed(t, r, "app", "1"); digests["linux/arm64"] != theirs.Digest() {
		t.Errorf("the tag names %v", digests)
	}
}

// The write of another job that looked at the tag before this one wrote, and
// wrote after: its index does not have what this job appended. It is seen, and
// merged with.
func TestAppendThatWasOvertakenIsMadeAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	published(t, r)
	r.Push("app", "s390x", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	theirs := registrytest.Index(t, registrytest.IndexOptions{}, registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{}),
		registrytest.Image(t, "linux/ppc64le", registrytest.ImageOptions{}))
	done := make(chan struct{})
	rule := r.Fault(registrytest.Fault{Method: "HEAD", Path: "/manifests/1$", Skip: 1, Hold: done})
	go func() {
		<-rule.Reached() // the last look, after the tag was written and confirmed
		r.Push("app", "1", theirs)
		close(done)
	}()
	if _, err := create(t, editing(t, r, manifold.Edit{Append: true}, "app:s390x")); err != nil {
		t.Fatal(err)
	}
	got, _ := listed(t, r, "app", "1")
	if diff := cmp.Diff([]string{"linux/amd64", "linux/ppc64le", "linux/s390x"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A precondition of the caller's own is not tried again.
func TestEditWithAPreconditionStops(t *testing.T) {
	r := registrytest.Distribution(t)
	published(t, r)
	r.Push("app", "s390x", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	before := r.Tags("app")["1"]
	o := editing(t, r, manifold.Edit{Append: true}, "app:s390x")
	o.Expect = []manifold.Expectation{{Tag: o.Targets[0], Digest: digest.FromString("other")}}
	if _, err := create(t, o); err == nil || r.Tags("app")["1"] != before {
		t.Errorf("%v, the tag names %s", err, r.Tags("app")["1"])
	}
	o.Expect[0].Digest = before
	if _, err := create(t, o); err != nil {
		t.Error(err)
	}
}
