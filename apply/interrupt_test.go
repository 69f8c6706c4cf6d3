package apply

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

var errInterrupted = errors.New("interrupted")

// had makes both tags of a plan name old content.
func (f *fake) had(old oci.Blob) {
	for _, repo := range []string{"one.test/a", "two.test/a"} {
		f.content[repo+"@"+old.Digest.String()], f.tags[repo+":1"] = old, old.Digest
	}
}

// TestInterruptedRunWritesNoTag: neither the next one, nor the one that has moved
// back; and running the plan again finishes it.
func TestInterruptedRunWritesNoTag(t *testing.T) {
	for name, previous := range map[string]oci.Blob{"tag was there": manifest("old"), "tag is new": {}} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, _, root := aPlan(previous)
			if previous.Bytes != nil {
				f.had(previous)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			f.onTag = func(*fake, string) { cancel(errInterrupted) }
			res, err := Run(ctx, p, f.options())
			if !errors.Is(err, errInterrupted) {
				t.Fatalf("err %v", err)
			}
			if diff := cmp.Diff([]string{"TAG one.test/a:1 " + short(root.Digest)}, f.requests("TAG", "UNTAG")); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"one.test/a:1 moved", "two.test/a:1 untried"}, fates(res)); diff != "" {
				t.Error(diff)
			}
			f.onTag = nil
			o := f.options()
			o.Again = true
			if res, err = Run(t.Context(), p, o); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"one.test/a:1 unchanged", "two.test/a:1 moved"}, fates(res)); diff != "" {
				t.Error(diff)
			}
			if n := len(f.requests("TAG")); n != 2 {
				t.Errorf("%d tag PUTs in both runs, want one per tag", n)
			}
		})
	}
}

// TestInterruptedTagPutIsAskedFor: whether the registry has carried out a PUT
// that was cut off is read, and not guessed.
func TestInterruptedTagPutIsAskedFor(t *testing.T) {
	old := manifest("old")
	for want, carriedOut := range map[string]bool{"moved": true, "unknown": false} {
		t.Run(want, func(t *testing.T) {
			f := newFake()
			p, _, root := aPlan(old)
			f.had(old)
			ctx, cancel := context.WithCancelCause(t.Context())
			o := f.options()
			repository := o.Repository
			o.Repository = func(r ref.Reference) Repository { return cutOff{repository(r).(fakeRepo), carriedOut, cancel} }
			res, err := Run(ctx, p, o)
			if !errors.Is(err, errInterrupted) {
				t.Fatalf("err %v", err)
			}
			if diff := cmp.Diff([]string{"one.test/a:1 " + want, "two.test/a:1 untried"}, fates(res)); diff != "" {
				t.Error(diff)
			}
			if found := res.Tags[0].Found; !carriedOut && found != old.Digest {
				t.Errorf("found %q, want what the tag names", found)
			}
			if now := f.tags["one.test/a:1"]; carriedOut && now != root.Digest {
				t.Errorf("the tag names %s", now)
			}
		})
	}
}

// cutOff is a repository whose answer to a tag PUT never comes.
type cutOff struct {
	fakeRepo
	carriedOut bool
	interrupt  context.CancelCauseFunc
}

func (r cutOff) PutTag(ctx context.Context, tag string, b oci.Blob) error {
	if r.carriedOut {
		_ = r.fakeRepo.PutTag(ctx, tag, b)
	}
	r.interrupt(errInterrupted)
	return context.Cause(ctx)
}

// TestInterruptEndsTheRestoring: the third tag is refused, two are to be put
// back, and the signal comes after the first of them.
func TestInterruptEndsTheRestoring(t *testing.T) {
	f := newFake()
	old := manifest("old")
	p, _, root := aPlan(old)
	f.had(old)
	p.Steps = append(p.Steps, plan.Step{
		ID: "tag3", Op: plan.MoveTag, Target: "two.test/a", Digest: root.Digest, MediaType: root.MediaType, Size: root.Size,
		Tag: "2", After: []string{"tag2"},
	})
	f.faults["TAG two.test/a:2 "+short(root.Digest)] = []error{&registry.Error{Status: 400}}
	ctx, cancel := context.WithCancelCause(t.Context())
	f.onTag = func(f *fake, name string) {
		if f.tags[name] == old.Digest {
			cancel(errInterrupted)
		}
	}
	res, err := Run(ctx, p, f.options())
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 moved", "two.test/a:2 refused"}, fates(res)); diff != "" {
		t.Error(diff)
	}
}
