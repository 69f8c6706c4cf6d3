package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

var errAbsent = errors.New("absent")

// fake is every repository of a test in one: content and tags by repository,
// a log of requests, and faults by request.
type fake struct {
	mu       sync.Mutex
	content  map[string]oci.Blob // "repo@digest"
	tags     map[string]digest.Digest
	log      []string
	faults   map[string][]error // request -> what it answers, in turn; nil passes
	onTag    func(f *fake, name string)
	blobs    map[digest.Digest]string
	outcomes registry.Outcome
}

func newFake() *fake {
	return &fake{content: map[string]oci.Blob{}, tags: map[string]digest.Digest{}, faults: map[string][]error{}, blobs: map[digest.Digest]string{}, outcomes: registry.Uploaded}
}

type fakeRepo struct {
	*fake
	name string
}

// begin logs a request and returns its fault. The caller holds the lock.
func (f *fake) begin(request string) error {
	f.log = append(f.log, request)
	if left := f.faults[request]; len(left) > 0 {
		f.faults[request] = left[1:]
		return left[0]
	}
	return nil
}

func (r fakeRepo) CopyBlob(ctx context.Context, d oci.Descriptor, _ []string, open func(context.Context) (io.ReadCloser, error)) (registry.Outcome, error) {
	rc, err := open(ctx)
	if err != nil {
		return r.outcomes, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		return r.outcomes, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[d.Digest] = string(b)
	return r.outcomes, r.begin("BLOB " + r.name + " " + string(b))
}

func (r fakeRepo) PutManifest(_ context.Context, b oci.Blob) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.begin("PUT " + r.name + "@" + short(b.Digest)); err != nil {
		return err
	}
	r.content[r.name+"@"+b.Digest.String()] = b
	return nil
}

func (r fakeRepo) PutTag(_ context.Context, tag string, b oci.Blob) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := r.name + ":" + tag
	if err := r.begin("TAG " + name + " " + short(b.Digest)); err != nil {
		return err
	}
	r.content[r.name+"@"+b.Digest.String()] = b
	r.tags[name] = b.Digest
	if r.onTag != nil {
		r.onTag(r.fake, name)
	}
	return nil
}

func (r fakeRepo) DeleteTag(_ context.Context, tag string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tags, r.name+":"+tag)
	return r.begin("UNTAG " + r.name + ":" + tag)
}

func (r fakeRepo) Manifest(_ context.Context, id string) (oci.Blob, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := digest.Digest(id)
	request := "GET " + r.name + "@" + short(d)
	if !strings.Contains(id, ":") {
		d = r.tags[r.name+":"+id]
		request = "GET " + r.name + ":" + id
	}
	if err := r.begin(request); err != nil {
		return oci.Blob{}, err
	}
	b, ok := r.content[r.name+"@"+d.String()]
	if !ok {
		return oci.Blob{}, errAbsent
	}
	return b, nil
}

func (r fakeRepo) StatBlob(_ context.Context, d oci.Descriptor) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.blobs[d.Digest]
	return ok, r.begin("HEAD " + r.name)
}

func (f *fake) OpenBlob(_ context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("bytes")), nil
}

func short(d digest.Digest) string {
	if len(d) < 20 {
		return string(d)
	}
	return d.Encoded()[:4]
}

func (f *fake) options() Options {
	return Options{
		Repository: func(r ref.Reference) Repository { return fakeRepo{f, r.Name()} },
		Place:      func(string) (BlobOpener, error) { return f, nil },
		Absent:     func(err error) bool { return errors.Is(err, errAbsent) },
		Sleep:      func(ctx context.Context, _ time.Duration) error { return context.Cause(ctx) },
	}
}

// requests returns those of the log that begin with one of the prefixes.
func (f *fake) requests(prefixes ...string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []string
	for _, l := range f.log {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(l, p) }) {
			out = append(out, l)
		}
	}
	return out
}

func manifest(text string) oci.Blob {
	return oci.NewBlob(oci.MediaTypeManifest, fmt.Appendf(nil, `{"schemaVersion":2,"x":%q}`, text))
}

// aPlan publishes a child and a root under tags of two hosts.
func aPlan(previous oci.Blob) (plan.Plan, oci.Blob, oci.Blob) {
	child, root := manifest("child"), oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"manifests":[]}`))
	p := plan.Plan{Version: plan.Version, Root: root.Descriptor}
	for _, b := range []oci.Blob{child, root, previous} {
		if b.Bytes != nil {
			p.Manifests = append(p.Manifests, plan.Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes})
		}
	}
	step := func(id string, op plan.Op, target string, b oci.Blob, tag string, after ...string) {
		s := plan.Step{ID: id, Op: op, Target: target, Digest: b.Digest, MediaType: b.MediaType, Size: b.Size, Tag: tag, After: after}
		if op == plan.MoveTag || op == plan.ConfirmTag {
			s.Previous = previous.Digest
		}
		p.Steps = append(p.Steps, s)
	}
	p.Steps = append(p.Steps, plan.Step{ID: "blob", Op: plan.CopyBlob, Target: "one.test/a", Digest: digest.FromString("bytes"), Size: 5, From: []string{"src.test/a"}})
	step("child", plan.PutManifest, "one.test/a", child, "", "blob")
	step("root", plan.PutManifest, "one.test/a", root, "", "child")
	step("root2", plan.PutManifest, "two.test/a", root, "")
	step("back", plan.ReadBack, "one.test/a", root, "", "root")
	step("back2", plan.ReadBack, "two.test/a", root, "", "root2")
	step("tag", plan.MoveTag, "one.test/a", root, "1", "back", "back2")
	step("tag2", plan.MoveTag, "two.test/a", root, "1", "tag")
	step("confirm", plan.ConfirmTag, "one.test/a", root, "1", "tag2")
	step("confirm2", plan.ConfirmTag, "two.test/a", root, "1", "tag2")
	step("child again", plan.Confirm, "one.test/a", child, "", "tag2")
	return p, child, root
}

func fates(r Result) []string {
	var out []string
	for _, t := range r.Tags {
		out = append(out, t.Reference.String()+" "+string(t.Fate))
	}
	return out
}

func TestEachTagMovesOnceAfterReadBack(t *testing.T) {
	f := newFake()
	p, _, root := aPlan(oci.Blob{})
	res, err := Run(t.Context(), p, f.options())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"TAG one.test/a:1 " + short(root.Digest), "TAG two.test/a:1 " + short(root.Digest)}
	if diff := cmp.Diff(want, f.requests("TAG")); diff != "" {
		t.Error(diff)
	}
	first := slices.Index(f.log, want[0])
	for _, back := range []string{"GET one.test/a@" + short(root.Digest), "GET two.test/a@" + short(root.Digest)} {
		if i := slices.Index(f.log, back); i < 0 || i > first {
			t.Errorf("%s came at %d, the first tag at %d", back, i, first)
		}
	}
	if diff := cmp.Diff([]string{"one.test/a:1 moved", "two.test/a:1 moved"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	if res.Uploaded != 1 || res.UploadedBytes != 5 || len(res.Written) != 3 {
		t.Errorf("result %+v", res)
	}
}

// TestRefusedTagRestoresTheOthers: a publish happened whole or not at all.
func TestRefusedTagRestoresTheOthers(t *testing.T) {
	refused := &registry.Error{Status: 400}
	for name, previous := range map[string]oci.Blob{"tag was there": manifest("old"), "tag is new": {}} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, _, root := aPlan(previous)
			if previous.Bytes != nil {
				f.tags["one.test/a:1"], f.content["one.test/a@"+previous.Digest.String()] = previous.Digest, previous
			}
			f.faults["TAG two.test/a:1 "+short(root.Digest)] = []error{refused}
			res, err := Run(t.Context(), p, f.options())
			var step *StepError
			if !errors.As(err, &step) || step.Step.ID != "tag2" || !errors.Is(err, refused) {
				t.Fatalf("err %v", err)
			}
			if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 refused"}, fates(res)); diff != "" {
				t.Error(diff)
			}
			if got := f.tags["one.test/a:1"]; got != previous.Digest {
				t.Errorf("tag names %q, want %q", got, previous.Digest)
			}
		})
	}
}

func TestNoTagWhenContentIsRefused(t *testing.T) {
	for name, request := range map[string]string{
		"blob": "BLOB one.test/a bytes", "child": "PUT one.test/a@", "index": "PUT two.test/a@", "read back": "GET two.test/a@",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, child, root := aPlan(oci.Blob{})
			switch name {
			case "child":
				request += short(child.Digest)
			case "index", "read back":
				request += short(root.Digest)
			}
			f.faults[request] = []error{&registry.Error{Status: 403}}
			res, err := Run(t.Context(), p, f.options())
			if err == nil {
				t.Fatal("no error")
			}
			if tags := f.requests("TAG", "UNTAG"); len(tags) > 0 {
				t.Errorf("tags were touched: %v", tags)
			}
			if diff := cmp.Diff([]string{"one.test/a:1 untried", "two.test/a:1 untried"}, fates(res)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestOtherBytesReadBackStop guards against registries and proxies that keep
// the digest header and change the body.
func TestOtherBytesReadBackStop(t *testing.T) {
	f := newFake()
	p, _, root := aPlan(oci.Blob{})
	o := f.options()
	o.Repository = func(r ref.Reference) Repository { return rewriting{fakeRepo{f, r.Name()}} }
	_, err := Run(t.Context(), p, o)
	var mismatch *oci.MismatchError
	if !errors.As(err, &mismatch) || mismatch.Want != root.Digest.String() {
		t.Fatalf("err %v", err)
	}
	if tags := f.requests("TAG"); len(tags) > 0 {
		t.Errorf("tags were touched: %v", tags)
	}
}

// rewriting answers with the same JSON of the same length and another digest.
type rewriting struct{ fakeRepo }

func (r rewriting) Manifest(ctx context.Context, id string) (oci.Blob, error) {
	b, err := r.fakeRepo.Manifest(ctx, id)
	b.Bytes = slices.Clone(b.Bytes)
	if len(b.Bytes) > 2 {
		b.Bytes[len(b.Bytes)-2] ^= 1
	}
	return b, err
}

func TestLagIsWaitedFor(t *testing.T) {
	f := newFake()
	old := manifest("old")
	p, _, root := aPlan(old)
	f.content["one.test/a@"+old.Digest.String()] = old
	f.faults["GET two.test/a@"+short(root.Digest)] = []error{errAbsent, errAbsent}
	f.onTag = func(f *fake, name string) {
		if name == "one.test/a:1" && len(f.faults["GET "+name]) == 0 {
			f.faults["GET "+name] = []error{errAbsent, errAbsent, errAbsent}
		}
	}
	if _, err := Run(t.Context(), p, f.options()); err != nil {
		t.Fatal(err)
	}
}

func TestLagEndsWithTheWindow(t *testing.T) {
	f := newFake()
	p, _, root := aPlan(oci.Blob{})
	f.faults["GET two.test/a@"+short(root.Digest)] = slices.Repeat([]error{errAbsent}, 1000)
	_, err := Run(t.Context(), p, f.options())
	var invisible *InvisibleError
	if !errors.As(err, &invisible) || invisible.Waited > 30*time.Second {
		t.Fatalf("err %v", err)
	}
	if tags := f.requests("TAG"); len(tags) > 0 {
		t.Errorf("tags were touched: %v", tags)
	}
}

// TestLoserOfARaceKnows: another writer moves the tag right after this run did.
// Nothing is put back, the other one's content stays.
func TestLoserOfARaceKnows(t *testing.T) {
	f := newFake()
	p, _, root := aPlan(oci.Blob{})
	theirs := manifest("theirs")
	f.onTag = func(f *fake, name string) {
		if name == "one.test/a:1" {
			f.tags[name], f.content["one.test/a@"+theirs.Digest.String()] = theirs.Digest, theirs
		}
	}
	res, err := Run(t.Context(), p, f.options())
	var race *RaceError
	if !errors.As(err, &race) || race.Got != theirs.Digest || race.Want != root.Digest {
		t.Fatalf("err %v", err)
	}
	if res.Tags[0].Fate != Lost || res.Tags[0].Found != theirs.Digest {
		t.Errorf("result %+v", res.Tags[0])
	}
	if got := f.tags["one.test/a:1"]; got != theirs.Digest {
		t.Errorf("tag names %s", got)
	}
	if got := f.tags["two.test/a:1"]; got != root.Digest {
		t.Errorf("the other host's tag names %s", got)
	}
}

// TestVanishedChildIsPutBack guards the zot behaviour: a tag move drops what only
// the old content kept.
func TestVanishedChildIsPutBack(t *testing.T) {
	f := newFake()
	p, child, _ := aPlan(oci.Blob{})
	f.onTag = func(f *fake, _ string) { delete(f.content, "one.test/a@"+child.Digest.String()) }
	res, err := Run(t.Context(), p, f.options())
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(res.PutBack, []digest.Digest{child.Digest}) {
		t.Errorf("put back %v", res.PutBack)
	}
	if _, ok := f.content["one.test/a@"+child.Digest.String()]; !ok {
		t.Error("child is gone")
	}
}

// TestTagThatNobodyCanReadIsNotWrittenBack: the answer to its PUT was lost and it
// cannot be looked at, so what a second PUT would take away is unknown. The other
// tag, known to have moved, goes back.
func TestTagThatNobodyCanReadIsNotWrittenBack(t *testing.T) {
	f := newFake()
	old := manifest("old")
	p, _, root := aPlan(old)
	f.had(old)
	lost := errors.New("connection reset")
	f.faults["TAG two.test/a:1 "+short(root.Digest)] = []error{lost}
	f.faults["GET two.test/a:1"] = []error{lost}
	res, err := Run(t.Context(), p, f.options())
	if !errors.Is(err, lost) {
		t.Fatalf("err %v", err)
	}
	if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 unknown"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	want := []string{"TAG one.test/a:1 " + short(root.Digest), "TAG two.test/a:1 " + short(root.Digest), "TAG one.test/a:1 " + short(old.Digest)}
	if diff := cmp.Diff(want, f.requests("TAG", "UNTAG")); diff != "" {
		t.Error(diff)
	}
}
