package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

var errLost = errors.New("connection reset")

func lostTag(found digest.Digest) error { return &registry.UnsettledError{Found: found, Err: errLost} }

// TestLostTagPutIsRepeatedOnlyWhileTheTagIsAsBefore: anything else there is another
// writer's, who is told from by exit code and not overwritten.
func TestLostTagPutIsRepeatedOnlyWhileTheTagIsAsBefore(t *testing.T) {
	old, other := manifest("old"), manifest("other")
	for name, c := range map[string]struct {
		previous oci.Blob
		answers  []error
		puts     int
		fate     string
	}{
		"as before":         {old, []error{lostTag(old.Digest)}, 2, "moved"},
		"nothing as before": {oci.Blob{}, []error{lostTag(""), lostTag("")}, 3, "moved"},
		"never settled":     {oci.Blob{}, []error{lostTag(""), lostTag(""), lostTag("")}, 3, "unknown"},
		"another's":         {old, []error{lostTag(other.Digest)}, 1, "lost"},
		"another's is new":  {oci.Blob{}, []error{lostTag(other.Digest)}, 1, "lost"},
		"removed":           {old, []error{lostTag("")}, 1, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake()
			p, _, root := aPlan(c.previous)
			if c.previous.Bytes != nil {
				f.had(c.previous)
			}
			put := "TAG one.test/a:1 " + short(root.Digest)
			f.faults[put] = c.answers
			res, err := Run(t.Context(), p, f.options())
			if n := len(f.requests(put)); n != c.puts {
				t.Errorf("%d PUTs, want %d", n, c.puts)
			}
			if got := fates(res)[0]; got != "one.test/a:1 "+c.fate {
				t.Error(got)
			}
			var race *RaceError
			if lost := errors.As(err, &race); lost != (c.fate == "lost") || (err == nil) != (c.fate == "moved") {
				t.Errorf("err %v", err)
			}
		})
	}
}

// secondRefused is a run of two tags the second of which is refused, after look
// has set what the first one reads as.
func secondRefused(t *testing.T, previous oci.Blob, look func(f *fake)) (*fake, *cleaner, Result) {
	t.Helper()
	f := newFake()
	p, _, root := aPlan(previous)
	if previous.Bytes != nil {
		f.had(previous)
	}
	f.faults["TAG two.test/a:1 "+short(root.Digest)] = []error{&registry.Error{Status: 403}}
	f.onTag = func(f *fake, name string) {
		if name == "one.test/a:1" && f.tags[name] == root.Digest {
			look(f)
		}
	}
	c := &cleaner{fake: f}
	o := f.options()
	o.Cleaner = func(r ref.Reference) Cleaner { return c }
	res, err := Run(t.Context(), p, o)
	if err == nil {
		t.Fatal("no error")
	}
	return f, c, res
}

// cleaner is a repository whose tags lead nowhere, as they do while its answers
// are old.
type cleaner struct {
	*fake
	deleted []digest.Digest
}

func (c *cleaner) Tagged(_ context.Context, _ func(oci.Blob) error) error { return nil }

func (c *cleaner) DeleteManifest(_ context.Context, d digest.Digest) error {
	c.deleted = append(c.deleted, d)
	return nil
}

// TestAcknowledgedTagIsPutBackThoughItIsNotSeenYet: the registry acknowledged the
// PUT and still answers what was there before.
func TestAcknowledgedTagIsPutBackThoughItIsNotSeenYet(t *testing.T) {
	for name, previous := range map[string]oci.Blob{"tag was there": manifest("old"), "tag is new": {}} {
		t.Run(name, func(t *testing.T) {
			f, _, res := secondRefused(t, previous, func(f *fake) {
				if previous.Bytes == nil {
					delete(f.tags, "one.test/a:1")
				} else {
					f.tags["one.test/a:1"] = previous.Digest
				}
			})
			if diff := cmp.Diff([]string{"one.test/a:1 restored", "two.test/a:1 refused"}, fates(res)); diff != "" {
				t.Error(diff)
			}
			undo := "UNTAG one.test/a:1"
			if previous.Bytes != nil {
				undo = "TAG one.test/a:1 " + short(previous.Digest)
			}
			if len(f.requests(undo)) != 1 {
				t.Errorf("no %s in %v", undo, f.log)
			}
		})
	}
}

// TestTagThatCannotBeReadStaysAndNothingIsRemoved: it names the new index as far
// as anybody knows.
func TestTagThatCannotBeReadStaysAndNothingIsRemoved(t *testing.T) {
	f, c, res := secondRefused(t, manifest("old"), func(f *fake) { f.faults["GET one.test/a:1"] = []error{errLost} })
	if diff := cmp.Diff([]string{"one.test/a:1 stuck", "two.test/a:1 refused"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	if n := len(f.requests("TAG one.test/a:1")); n != 1 || len(c.deleted) > 0 {
		t.Errorf("%d PUTs, deleted %v", n, c.deleted)
	}
	for _, l := range res.Left {
		if !strings.Contains(l.Reason, "a tag may lead to it") {
			t.Errorf("%s: %s", l.Digest, l.Reason)
		}
	}
	if len(res.Left) == 0 {
		t.Error("what stays is not named")
	}
}

// TestTagThatAnotherWriterTakesWhileItIsPutBackIsTheirs, and not one that could
// not be put back.
func TestTagThatAnotherWriterTakesWhileItIsPutBackIsTheirs(t *testing.T) {
	old, other := manifest("old"), manifest("other")
	f, _, res := secondRefused(t, old, func(f *fake) {
		f.faults["TAG one.test/a:1 "+short(old.Digest)] = []error{lostTag(other.Digest)}
	})
	if diff := cmp.Diff([]string{"one.test/a:1 lost", "two.test/a:1 refused"}, fates(res)); diff != "" {
		t.Error(diff)
	}
	if n := len(f.requests("TAG one.test/a:1")); n != 2 || res.Tags[0].Found != other.Digest {
		t.Errorf("%d PUTs, found %s", n, res.Tags[0].Found)
	}
}
