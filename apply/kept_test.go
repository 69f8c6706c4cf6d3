package apply

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// aKeptTag is aPlan with a third tag, which was right when it was made.
func aKeptTag(f *fake) plan.Plan {
	p, _, root := aPlan(oci.Blob{})
	p.Targets = []plan.Target{{Reference: "one.test/a:right", Digest: root.Digest}}
	p.Held = []plan.Held{{Target: "one.test/a", Tags: []string{"right"}}}
	p.Steps = append(p.Steps, plan.Step{
		ID: "right", Op: plan.ConfirmTag, Target: "one.test/a", Tag: "right",
		Digest: root.Digest, Previous: root.Digest, MediaType: root.MediaType, Size: root.Size, After: []string{"tag2"},
	})
	f.tags["one.test/a:right"] = root.Digest
	f.content["one.test/a@"+root.Digest.String()] = root
	return p
}

// TestTagThatWasRightIsReadAgain: it is not written, also when the others are
// put back; when another writer has moved or removed it that is a lost race,
// found without waiting for what cannot come.
func TestTagThatWasRightIsReadAgain(t *testing.T) {
	other := manifest("other")
	for name, tt := range map[string]struct {
		change func(*fake)
		want   []string
		lost   bool
	}{
		"right": {func(*fake) {}, []string{"one.test/a:1 moved", "two.test/a:1 moved", "one.test/a:right unchanged"}, false},
		"moved": {func(f *fake) {
			f.tags["one.test/a:right"] = other.Digest
			f.content["one.test/a@"+other.Digest.String()] = other
		}, []string{"one.test/a:1 moved", "two.test/a:1 moved", "one.test/a:right lost"}, true},
		"removed": {func(f *fake) { delete(f.tags, "one.test/a:right") }, []string{"one.test/a:1 moved", "two.test/a:1 moved", "one.test/a:right lost"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p := aKeptTag(f)
			tt.change(f)
			res, err := Run(t.Context(), p, f.options())
			var race *RaceError
			if errors.As(err, &race) != tt.lost || (err != nil) != tt.lost {
				t.Errorf("err %v", err)
			}
			if diff := cmp.Diff(tt.want, fates(res)); diff != "" {
				t.Error(diff)
			}
			if n := len(f.requests("TAG one.test/a:right", "UNTAG one.test/a:right")); n != 0 {
				t.Errorf("written %d times", n)
			}
		})
	}
	f := newFake()
	p := aKeptTag(f)
	f.faults["TAG two.test/a:1 "+short(p.Root.Digest)] = []error{&registry.Error{Status: 400}}
	o := f.options()
	o.Again = true
	res, err := Run(t.Context(), p, o)
	if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 refused", "one.test/a:right unchanged"}, fates(res)); err == nil || diff != "" {
		t.Errorf("err %v %s", err, diff)
	}
	if n := len(f.requests("TAG one.test/a:right", "UNTAG one.test/a:right")); n != 0 {
		t.Errorf("written %d times", n)
	}
}

// TestCompareReadsTagsThatWereRight: one that is right is not what an earlier
// run has done, one that is not is a difference.
func TestCompareReadsTagsThatWereRight(t *testing.T) {
	f := newFake()
	p := aKeptTag(f)
	if begun, err := Compare(t.Context(), p, f.options()); begun || err != nil {
		t.Errorf("begun %v, err %v", begun, err)
	}
	for name, now := range map[string]digest.Digest{"moved": manifest("other").Digest, "gone": ""} {
		delete(f.tags, "one.test/a:right")
		if now != "" {
			f.tags["one.test/a:right"] = now
			f.content["one.test/a@"+now.String()] = manifest("other")
		}
		_, err := Compare(t.Context(), p, f.options())
		var world *WorldError
		if !errors.As(err, &world) || len(world.Differences) != 1 || world.Differences[0].Planned != p.Root.Digest || world.Differences[0].Found != now {
			t.Errorf("%s: err %v", name, err)
		}
	}
}
