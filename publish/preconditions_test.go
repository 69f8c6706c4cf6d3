package publish

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

func parseRef(t *testing.T, s string) ref.Reference {
	t.Helper()
	r, err := ref.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestPreconditionsAreCheckedWhenThePlanIsMade(t *testing.T) {
	c, a, _ := twoPlatforms(t, "r.test/app")
	for name, tt := range map[string]struct {
		tags      map[string]oci.Blob
		expect    map[string]digest.Digest
		noClobber bool
		want      string // in the error; empty for a plan
		checks    int    // moves with a precondition
	}{
		"none":                       {tags: map[string]oci.Blob{"1": a}},
		"met":                        {tags: map[string]oci.Blob{"1": a}, expect: map[string]digest.Digest{"1": a.Digest}, checks: 1},
		"another digest":             {tags: map[string]oci.Blob{"1": a}, expect: map[string]digest.Digest{"1": digest.FromString("x")}, want: "expected sha256:2d711642b726"},
		"not there":                  {expect: map[string]digest.Digest{"1": a.Digest}, want: "found no such tag"},
		"not to be there":            {expect: map[string]digest.Digest{"1": ""}, checks: 1},
		"there":                      {tags: map[string]oci.Blob{"1": a}, expect: map[string]digest.Digest{"1": ""}, want: "expected no such tag"},
		"no clobber":                 {noClobber: true, checks: 2},
		"no clobber and there":       {tags: map[string]oci.Blob{"2": a}, noClobber: true, want: "r.test/app:2: expected no such tag"},
		"expected beside no clobber": {tags: map[string]oci.Blob{"1": a}, expect: map[string]digest.Digest{"1": a.Digest}, noClobber: true, checks: 2},
		"right already":              {tags: map[string]oci.Blob{"1": c.Root}, expect: map[string]digest.Digest{"1": a.Digest}, noClobber: true, checks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			repo := fakeRepository{tags: tt.tags, manifests: map[digest.Digest]oci.Blob{}, asked: new(asked)}
			o := Options{
				Open: func(ref.Reference) Prober { return repo }, Absent: func(err error) bool { return errors.Is(err, errAbsent) },
				Targets: []ref.Reference{parseRef(t, "r.test/app:1"), parseRef(t, "r.test/app:2")}, NoClobber: tt.noClobber,
			}
			for tag, d := range tt.expect {
				o.Expect = append(o.Expect, Expectation{Tag: parseRef(t, "r.test/app:"+tag), Digest: d})
			}
			p, err := Make(t.Context(), c, o)
			var precondition *plan.PreconditionError
			switch {
			case tt.want == "" && err != nil, tt.want != "" && !errors.As(err, &precondition):
				t.Fatalf("err %v", err)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Fatalf("err %v, want %q", err, tt.want)
			}
			n := 0
			for _, s := range p.TagMoves() {
				if s.Check {
					n++
				}
			}
			if n != tt.checks {
				t.Errorf("%d moves are checked, want %d", n, tt.checks)
			}
		})
	}
}

// TestEveryFailedPreconditionIsNamed: one run tells all of them.
func TestEveryFailedPreconditionIsNamed(t *testing.T) {
	c, a, b := twoPlatforms(t, "r.test/app")
	repo := fakeRepository{tags: map[string]oci.Blob{"1": a, "2": b}, asked: new(asked)}
	_, err := Make(t.Context(), c, Options{
		Open: func(ref.Reference) Prober { return repo }, Absent: func(err error) bool { return errors.Is(err, errAbsent) },
		Targets: []ref.Reference{parseRef(t, "r.test/app:1"), parseRef(t, "r.test/app:2")}, NoClobber: true,
	})
	if err == nil || !strings.Contains(err.Error(), "app:1: ") || !strings.Contains(err.Error(), "app:2: ") {
		t.Errorf("err %v", err)
	}
}

func TestExpectationsAreRead(t *testing.T) {
	targets := []ref.Reference{parseRef(t, "r.test/app:1"), parseRef(t, "s.test/app:1"), parseRef(t, "r.test/app:2"), parseRef(t, "docker.io/library/app:3")}
	d := digest.FromString("x")
	for in, want := range map[string][]Expectation{
		"1=" + d.String():            {{Tag: targets[0], Digest: d}, {Tag: targets[1], Digest: d}},
		"r.test/app:2=none":          {{Tag: targets[2]}},
		"app:3=" + d.String():        {{Tag: targets[3], Digest: d}},
		"":                           nil,
		"=none":                      nil,
		"1=":                         nil,
		"1=sha256:12":                nil,
		"9=none":                     nil,
		"r.test/app=" + d.String():   nil,
		"r.test/bpp:2=none":          nil,
		"r.test/app:2@" + d.String(): nil,
	} {
		got, err := ParseExpectation(in, targets)
		if (err != nil) != (want == nil) {
			t.Errorf("%q: %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", in, diff)
		}
	}
}
