package apply

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// TestTagWithAPreconditionIsReadJustBeforeItMoves: one GET more, and no PUT when
// it names something else; the tags before it go back.
func TestTagWithAPreconditionIsReadJustBeforeItMoves(t *testing.T) {
	f := newFake()
	p, _, root := aPlan(oci.Blob{})
	p = p.Checked()
	other := manifest("other")
	f.onTag = func(f *fake, name string) { // another writer takes the second tag meanwhile
		f.content["two.test/a@"+other.Digest.String()] = other
		f.tags["two.test/a:1"] = other.Digest
	}
	res, err := Run(t.Context(), p, f.options())
	var precondition *plan.PreconditionError
	if !errors.As(err, &precondition) || precondition.Found != other.Digest || precondition.Expected != "" {
		t.Fatalf("err %v", err)
	}
	if diff := cmp.Diff([]string{"TAG one.test/a:1 " + short(root.Digest)}, f.requests("TAG")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 refused"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	if res.Tags[1].Found != other.Digest {
		t.Errorf("found %s", res.Tags[1].Found)
	}
}

// TestPreconditionThatCannotBeAskedStops: it is not taken to hold.
func TestPreconditionThatCannotBeAskedStops(t *testing.T) {
	f := newFake()
	p, _, _ := aPlan(oci.Blob{})
	f.faults["GET one.test/a:1"] = []error{errors.New("unreachable")}
	if _, err := Run(t.Context(), p.Checked(), f.options()); err == nil || len(f.requests("TAG")) > 0 {
		t.Errorf("err %v, requests %v", err, f.requests("TAG"))
	}
}

// TestAgainSendsNothingThatIsThere: everything but the second tag was done by an
// earlier run.
func TestAgainSendsNothingThatIsThere(t *testing.T) {
	f := newFake()
	p, child, root := aPlan(oci.Blob{})
	f.blobs[digest.FromString("bytes")] = "bytes"
	for _, name := range []string{"one.test/a@", "two.test/a@"} {
		f.content[name+root.Digest.String()] = root
	}
	f.content["one.test/a@"+child.Digest.String()] = child
	f.tags["one.test/a:1"] = root.Digest
	o := f.options()
	o.Again = true
	res, err := Run(t.Context(), p, o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"TAG two.test/a:1 " + short(root.Digest)}, f.requests("TAG", "PUT", "BLOB")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"one.test/a:1 unchanged", "two.test/a:1 moved"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	if res.Tags[0].Previous != root.Digest || res.Nothing() {
		t.Errorf("%+v", res)
	}
	if res.Present != 1 || len(res.Written) != 0 {
		t.Errorf("%+v", res)
	}
}

func TestCompareNamesEveryTagThatHasMoved(t *testing.T) {
	f := newFake()
	previous := manifest("previous")
	p, _, root := aPlan(previous)
	other := manifest("other")
	f.content["one.test/a@"+root.Digest.String()] = root
	f.tags["one.test/a:1"] = root.Digest
	f.content["two.test/a@"+other.Digest.String()] = other
	f.tags["two.test/a:1"] = other.Digest
	begun, err := Compare(t.Context(), p, f.options())
	var world *WorldError
	if !errors.As(err, &world) || !begun {
		t.Fatalf("begun %t, err %v", begun, err)
	}
	want := []Difference{{Tag: ref.Reference{Host: "two.test", Repository: "a", Tag: "1"}, Planned: previous.Digest, Found: other.Digest}}
	if diff := cmp.Diff(want, world.Differences); diff != "" {
		t.Error(diff)
	}
	f.faults["GET one.test/a:1"] = []error{errors.New("unreachable")}
	if _, err := Compare(t.Context(), p, f.options()); err == nil || errors.As(err, &world) {
		t.Errorf("could not ask: %v", err)
	}
}

// cleaner is the cleaning side of a fake repository.
type fakeCleaner struct{ fakeRepo }

func (c fakeCleaner) Tagged(_ context.Context, each func(oci.Blob) error) error {
	for name, d := range c.tags {
		if b, ok := c.content[c.name+"@"+d.String()]; ok && name[:len(c.name)] == c.name {
			if err := each(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c fakeCleaner) DeleteManifest(_ context.Context, d digest.Digest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.begin("DELETE " + c.name + "@" + short(d)); err != nil {
		return err
	}
	delete(c.content, c.name+"@"+d.String())
	return nil
}

func (f *fake) cleaning() Options {
	o := f.options()
	o.Cleaner = func(r ref.Reference) Cleaner { return fakeCleaner{fakeRepo{f, r.Name()}} }
	return o
}

// image is a manifest that points at the one blob of aPlan, and an index of it.
func realPlan(t *testing.T) (plan.Plan, oci.Blob, oci.Blob) {
	t.Helper()
	blob := digest.FromString("bytes").String()
	child := oci.NewBlob(oci.MediaTypeManifest, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeManifest+`","config":{"mediaType":"`+oci.MediaTypeConfig+`","digest":"`+blob+`","size":5},"layers":[]}`))
	root := oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[{"mediaType":"`+child.MediaType+`","digest":"`+child.Digest.String()+`","size":`+itoa(child.Size)+`}]}`))
	p, oldChild, oldRoot := aPlan(oci.Blob{})
	swap := map[digest.Digest]oci.Blob{oldChild.Digest: child, oldRoot.Digest: root}
	for i, m := range p.Manifests {
		b := swap[m.Digest]
		p.Manifests[i] = plan.Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes}
	}
	for i, s := range p.Steps {
		if b, ok := swap[s.Digest]; ok {
			p.Steps[i].Digest, p.Steps[i].Size, p.Steps[i].MediaType = b.Digest, b.Size, b.MediaType
		}
	}
	p.Root = root.Descriptor
	return p, child, root
}

func itoa(n int64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

func refusal403(op string) error {
	return &registry.Error{Op: op, Status: 403}
}

func TestWhatARefusedRunHasMadeIsRemovedParentsFirst(t *testing.T) {
	f := newFake()
	p, child, root := realPlan(t)
	f.faults["TAG one.test/a:1 "+short(root.Digest)] = []error{refusal403("write tag")}
	res, err := Run(t.Context(), p, f.cleaning())
	if err == nil {
		t.Fatal("no error")
	}
	want := []string{"DELETE one.test/a@" + short(root.Digest), "DELETE one.test/a@" + short(child.Digest)}
	if diff := cmp.Diff(want, f.requests("DELETE")); diff != "" {
		t.Error(diff)
	}
	// The other target had got no blob by this run, so nothing is known there.
	if len(res.Removed) != 2 || len(res.Left) != 1 || res.Left[0].Repository.Host != "two.test" {
		t.Errorf("removed %v, left %v", res.Removed, res.Left)
	}
}

func TestWhatMayBeUsedIsLeft(t *testing.T) {
	for name, change := range map[string]func(f *fake, p *plan.Plan, child, root oci.Blob) error{
		"it was there before": func(f *fake, _ *plan.Plan, _, _ oci.Blob) error {
			f.outcomes = registry.Present
			return refusal403("write tag")
		},
		"the line broke, the run can be taken up": func(*fake, *plan.Plan, oci.Blob, oci.Blob) error { return errors.New("reset") },
		"the registry could not be asked now":     func(*fake, *plan.Plan, oci.Blob, oci.Blob) error { return &registry.Error{Status: 503} },
		"another tag leads to it": func(f *fake, _ *plan.Plan, _, root oci.Blob) error {
			f.content["one.test/a@"+root.Digest.String()] = root
			f.tags["one.test/a:other"] = root.Digest
			return refusal403("write tag")
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, child, root := realPlan(t)
			failure := change(f, &p, child, root)
			f.faults["TAG one.test/a:1 "+short(root.Digest)] = []error{failure}
			if _, err := Run(t.Context(), p, f.cleaning()); !errors.Is(err, failure) {
				t.Fatalf("err %v", err)
			}
			if got := f.requests("DELETE"); len(got) > 0 {
				t.Errorf("removed %v", got)
			}
		})
	}
}

func TestRegistryThatDoesNotDeleteIsNamedWithTheReason(t *testing.T) {
	f := newFake()
	p, child, root := realPlan(t)
	f.faults["TAG one.test/a:1 "+short(root.Digest)] = []error{refusal403("write tag")}
	for _, b := range []oci.Blob{child, root} {
		f.faults["DELETE one.test/a@"+short(b.Digest)] = []error{&registry.Error{Op: "delete manifest", Status: 405}}
	}
	res, _ := Run(t.Context(), p, f.cleaning())
	n := 0
	for _, l := range res.Left {
		if l.Repository.Host == "one.test" && l.Reason != "" {
			n++
		}
	}
	if n != 2 || len(res.Removed) > 0 {
		t.Errorf("removed %v, left %v", res.Removed, res.Left)
	}
}

// TestJournalHasATagBeforeItIsWritten: what others see is noted first.
func TestJournalHasATagBeforeItIsWritten(t *testing.T) {
	f := newFake()
	p, _, _ := aPlan(oci.Blob{})
	j := &memory{fake: f}
	o := f.options()
	o.Journal = j
	if _, err := Run(t.Context(), p, o); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"tag after 0 tags", "tag2 after 1 tags"}, j.begun); diff != "" {
		t.Error(diff)
	}
	slices.Sort(j.done)
	if len(j.done) != len(p.Steps) {
		t.Errorf("%d steps are noted as done, of %d", len(j.done), len(p.Steps))
	}
}

type memory struct {
	*fake
	begun, done []string
}

func (m *memory) Begin(step string) {
	m.begun = append(m.begun, step+" after "+itoa(int64(len(m.requests("TAG"))))+" tags")
}

func (m *memory) Done(step string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.done = append(m.done, step)
}

func TestOtherWritersAreDescribedByWhatTheyWrote(t *testing.T) {
	for text, want := range map[string]string{
		`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[{"mediaType":"` + oci.MediaTypeManifest + `","digest":"` + digest.FromString("x").String() + `","size":1,"platform":{"os":"linux","architecture":"arm64"}}],"annotations":{"org.opencontainers.image.revision":"abc"}}`: "an index for linux/arm64, revision abc",
		`{"schemaVersion":2,"mediaType":"` + oci.MediaTypeIndex + `","manifests":[]}`: "an index",
	} {
		if got := describe(oci.NewBlob(oci.MediaTypeIndex, []byte(text))); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := describe(manifest("x")); got != "an image for one platform" {
		t.Errorf("%q", got)
	}
}

// TestTagThatIsRightIsUnchanged: the same plan once more writes nothing and says
// so; a tag that this publish had moved before is put back when a later one is
// refused, one that another writer has made right is left alone.
func TestTagThatIsRightIsUnchanged(t *testing.T) {
	for name, again := range map[string]bool{"of an earlier run": true, "of another writer": false} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, _, root := aPlan(oci.Blob{})
			f.content["one.test/a@"+root.Digest.String()] = root
			f.tags["one.test/a:1"] = root.Digest
			f.faults["TAG two.test/a:1 "+short(root.Digest)] = []error{&registry.Error{Status: 400}}
			o := f.options()
			o.Again = again
			res, err := Run(t.Context(), p.Checked(), o)
			first := map[bool]string{true: "restored", false: "unchanged"}[again]
			if diff := cmp.Diff([]string{"one.test/a:1 " + first, "two.test/a:1 refused"}, fates(res)); err == nil || diff != "" {
				t.Errorf("err %v\n%s", err, diff)
			}
			if n := len(f.requests("UNTAG one.test/a:1")); (n == 1) != again {
				t.Errorf("put back %d times", n)
			}
		})
	}
	f := newFake()
	p, _, _ := aPlan(oci.Blob{})
	if _, err := Run(t.Context(), p, f.options()); err != nil {
		t.Fatal(err)
	}
	o := f.options()
	o.Again = true
	f.blobs[digest.FromString("bytes")] = "bytes"
	res, err := Run(t.Context(), p, o)
	if diff := cmp.Diff([]string{"one.test/a:1 unchanged", "two.test/a:1 unchanged"}, fates(res)); err != nil || diff != "" || !res.Nothing() {
		t.Errorf("err %v, %+v\n%s", err, res, diff)
	}
}
