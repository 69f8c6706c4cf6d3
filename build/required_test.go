package build

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// failing builds all but the platforms named, as a node does that keeps going.
func failing(f *fake, platforms ...oci.Platform) func(context.Context, Request) ([]Image, error) {
	return func(_ context.Context, req Request) ([]Image, error) {
		var images []Image
		var errs []error
		for _, p := range req.Platforms {
			bad := false
			for _, q := range platforms {
				bad = bad || oci.PlatformKey(p) == oci.PlatformKey(q)
			}
			if bad {
				errs = append(errs, &NodeError{Node: f.name, Platform: &p, Err: errors.New("broken")})
				continue
			}
			images = append(images, f.image(p))
		}
		return images, errors.Join(errs...)
	}
}

func TestOptionalPlatformsAreLeftOut(t *testing.T) {
	for name, tc := range map[string]struct {
		required string
		broken   string
		want     string
		fails    bool
	}{
		"optional one":              {"linux/amd64", "linux/arm64", "linux/amd64=a linux/s390x=a", false},
		"two of them":               {"linux/amd64", "linux/arm64 linux/s390x", "linux/amd64=a", false},
		"required one":              {"linux/amd64 linux/arm64", "linux/arm64", "", true},
		"both kinds":                {"linux/amd64", "linux/amd64 linux/s390x", "", true},
		"all are":                   {"", "linux/s390x", "", true},
		"nobody has optional one":   {"linux/amd64", "none", "linux/amd64=a linux/arm64=b linux/s390x=a", false},
		"everything that is asked":  {"linux/amd64 linux/arm64 linux/s390x", "", "linux/amd64=a linux/arm64=b linux/s390x=a", false},
		"other spelling of a name":  {"linux/x86_64", "linux/arm64/v8", "linux/amd64=a linux/s390x=a", false},
		"the whole node is missing": {"linux/amd64 linux/s390x", "node", "linux/amd64=a linux/s390x=a", false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &fake{name: "a", declared: parse(t, "linux/amd64 linux/s390x")}
			b := &fake{name: "b", declared: parse(t, "linux/arm64")}
			platforms := parse(t, "linux/amd64 linux/arm64 linux/s390x")
			switch tc.broken {
			case "node":
				b.build = func(context.Context, Request) ([]Image, error) { return nil, &UnreachableError{Node: "b"} }
			case "none":
				platforms = append(platforms, parse(t, "linux/riscv64")...)
			default:
				a.build, b.build = failing(a, parse(t, tc.broken)...), failing(b, parse(t, tc.broken)...)
			}
			var warned []string
			images, err := Run(t.Context(), nodes(a, b), Options{Platforms: platforms, Required: parse(t, tc.required), Report: func(e report.Event) {
				if e.Kind == report.Warning {
					warned = append(warned, e.Text)
				}
			}})
			if (err != nil) != tc.fails {
				t.Fatalf("error %v", err)
			}
			if tc.fails {
				return
			}
			if d := cmp.Diff(tc.want, built(images)); d != "" {
				t.Error(d)
			}
			if left := len(platforms) - len(images); len(warned) != left {
				t.Errorf("%d are left out, warnings %q", left, warned)
			}
		})
	}
}

func TestWithoutAnyImageOptionalOrNotIsAFailure(t *testing.T) {
	o := Options{Required: parse(t, "linux/amd64")}
	f := failure{job: job{platforms: parse(t, "linux/arm64")}, err: errors.New("broken")}
	if images, err := o.verdict(nil, []failure{f}); err == nil || len(images) > 0 {
		t.Errorf("%v, %v", images, err)
	}
}

// A node that fails on two platforms and names one of them, the optional one, has
// no image of the other either, whatever its error says.
func TestRequiredPlatformWithoutAnImageFails(t *testing.T) {
	a := &fake{name: "a", declared: parse(t, "linux/amd64 linux/s390x")}
	b := &fake{name: "b", declared: parse(t, "linux/arm64")}
	a.build = func(context.Context, Request) ([]Image, error) {
		return nil, &DestinationError{Platform: &a.declared[1], Err: errors.New("broken")}
	}
	images, err := Run(t.Context(), nodes(a, b), Options{
		Platforms: parse(t, "linux/amd64 linux/arm64 linux/s390x"), Required: parse(t, "linux/amd64 linux/arm64"),
	})
	if err == nil || !strings.Contains(err.Error(), "broken") {
		t.Errorf("%s, error %v", built(images), err)
	}
}

// busy is a node that says how much it has to do.
type busy struct {
	*fake
	n   int
	err error
}

func (b busy) Busy(context.Context) (int, error) { return b.n, b.err }

func TestOfEqualNodesTheIdleOneBuilds(t *testing.T) {
	amd := parse(t, "linux/amd64")
	a := busy{&fake{name: "a", declared: amd}, 3, nil}
	b := busy{&fake{name: "b", declared: amd}, 1, nil}
	dead := busy{&fake{name: "dead", declared: amd}, 0, &UnreachableError{Node: "dead"}}
	for name, tc := range map[string]struct {
		nodes []Node
		want  string
	}{
		"the least busy":    {[]Node{a, b}, "linux/amd64=b"},
		"one that answers":  {[]Node{dead, a}, "linux/amd64=a"},
		"the only one":      {[]Node{a}, "linux/amd64=a"},
		"one without a say": {[]Node{a, &fake{name: "c", declared: amd}}, "linux/amd64=c"},
	} {
		images, err := Run(t.Context(), tc.nodes, Options{Platforms: amd})
		if err != nil || built(images) != tc.want {
			t.Errorf("%s: %s, %v", name, built(images), err)
		}
	}
	if as, _ := Assign(parse(t, "linux/amd64 linux/386 linux/s390x"), []Candidate{
		{Name: "a", Declared: parse(t, "linux/amd64 linux/386 linux/s390x"), Busy: 2},
		{Name: "b", Declared: parse(t, "linux/amd64 linux/386 linux/s390x")},
	}, false); show(as, nil) != "linux/amd64=b linux/386=b linux/s390x=a" {
		t.Errorf("%s", strings.ReplaceAll(show(as, nil), " ", "\n"))
	}
}
