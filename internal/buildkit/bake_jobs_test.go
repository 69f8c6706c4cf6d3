package buildkit

import (
	"errors"
	"io"
	"testing"

	buildx "github.com/docker/buildx/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
)

// The spellings are those of "buildx bake --jobs".
func TestJobs(t *testing.T) {
	for given, want := range map[string]Jobs{
		"fail-fast":                   {},
		"":                            {},
		"2":                           {Parallel: 2},
		"0":                           {},
		"parallel=3":                  {Parallel: 3},
		"defer-output":                {DeferOutput: true},
		"mode=defer-error":            {DeferError: true},
		"defer-error , parallel=4":    {DeferError: true, Parallel: 4},
		"PARALLEL=1,mode=fail-fast":   {Parallel: 1},
		"parallel=2,mode=defer-error": {DeferError: true, Parallel: 2},
	} {
		got, err := bakeFlags(t, "--jobs="+given).Jobs()
		if err != nil || got != want {
			t.Errorf("%q = %+v, %v, want %+v", given, got, err, want)
		}
	}
	for _, given := range []string{"-1", "all", "parallel=x", "mode=", "1,2", "fail-fast,defer-error", "parallel=1,parallel=1", "other=1", "fail-fast,"} {
		var u *UsageError
		if got, err := bakeFlags(t, "--jobs="+given).Jobs(); !errors.As(err, &u) {
			t.Errorf("%q = %+v, %v, want a usage error", given, got, err)
		}
	}
}

// A build that only evaluates writes no cache that others read.
func TestEvaluationWritesNothing(t *testing.T) {
	caches := []client.CacheOptionsEntry{{Type: "registry", Attrs: map[string]string{"ref": "r/c"}}}
	s := &Spec{Options: buildx.Options{CacheTo: caches}, linked: map[string]buildx.Options{"base": {CacheTo: caches}}}
	e := s.Evaluated()
	if len(e.Options.CacheTo)+len(e.linked["base"].CacheTo) > 0 || len(e.Others) != 1 || e.Others[0].Type != "cacheonly" {
		t.Errorf("%+v", e)
	}
	if len(s.Options.CacheTo) != 1 || len(s.linked["base"].CacheTo) != 1 {
		t.Error("the build itself was changed")
	}
}

func bakeFlags(t *testing.T, args ...string) *Command {
	t.Helper()
	c, err := NewBakeCommand(flagCLI(t, "", io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Flags().Parse(args); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestContextsAreBuiltForTheirOwnPlatform(t *testing.T) {
	all := parsePlatforms(t, "linux/amd64", "linux/arm64", "linux/s390x", "linux/arm64/v8")
	amd, arm, s390, long := all[0], all[1], all[2], all[3:]
	for name, c := range map[string]struct{ listed, want []oci.Platform }{
		"none: the node's":     {nil, nil},
		"one: that":            {[]oci.Platform{amd}, []oci.Platform{amd}},
		"several with it":      {[]oci.Platform{amd, arm}, []oci.Platform{arm}},
		"several, it is new":   {[]oci.Platform{amd, s390}, []oci.Platform{arm}},
		"the same, spelt long": {long, []oci.Platform{arm}},
	} {
		got := linkedPlatforms(c.listed, arm)
		if len(got) != len(c.want) || len(got) == 1 && oci.PlatformKey(got[0]) != oci.PlatformKey(c.want[0]) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
