package buildkit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	buildx "github.com/docker/buildx/build"
	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/moby/buildkit/client"
)

func str(s string) *string { return &s }

func TestPushOptionsMoveNoName(t *testing.T) {
	p := parsePlatforms(t, "linux/arm64")[0]
	spec := &Spec{
		Options: buildx.Options{
			Ref: "ref", Tags: []string{"r/a:1"}, Attests: map[string]*string{"sbom": str("")},
			BuildArgs: map[string]string{"A": "1", multiPlatformArg: "1", "BUILDKIT_ATTEST_SBOM": "generator=g"}, FrontendAttrs: map[string]string{multiPlatformAttr: "true", "b": "2"},
		},
		Names: []string{"r/a:1"},
		Image: map[string]string{
			"push": "false", "push-by-digest": "false", "name": "r/a:1", "registry.insecure": "true", "compression": "zstd",
			"annotation-index.i": "1", "annotation.m": "1", "annotation[linux/arm64].m": "2", "annotation-manifest[linux/amd64].n": "3",
		},
	}
	o := pushOptions(spec, p, []string{"r/a", "r/b"})
	want := map[string]string{
		"push": "true", "push-by-digest": "true", "name": "r/a,r/b", "unpack": "false", "store": "false", "registry.insecure": "true",
		"compression": "zstd", "oci-mediatypes": "true", "annotation-manifest.m": "2",
	}
	if diff := cmp.Diff(want, o.Exports[0].Attrs); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if len(o.Tags) > 0 || o.Ref != "" || len(o.Attests) != 1 || o.Attests["provenance"] != nil {
		t.Errorf("tags %v, ref %q, attests %v", o.Tags, o.Ref, o.Attests)
	}
	if diff := cmp.Diff(map[string]string{"A": "1"}, o.BuildArgs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]string{"b": "2"}, o.FrontendAttrs); diff != "" {
		t.Error(diff)
	}
	if len(spec.Options.BuildArgs) != 3 || len(spec.Options.FrontendAttrs) != 2 {
		t.Error("the user's options were changed")
	}
}

// BuildKit reads some build arguments as attestations to make. They are asked
// for as the flags are, which go before them.
func TestAttestationsAskedForByBuildArgument(t *testing.T) {
	spec := &Spec{Options: buildx.Options{BuildArgs: map[string]string{
		"BUILDKIT_ATTEST_SBOM": "generator=g", "BUILDKIT_ATTEST_PROVENANCE": "mode=max", "SBOM": "1",
	}}}
	if diff := cmp.Diff(map[string]*string{"sbom": str("generator=g"), "provenance": str("mode=max")}, wantedAttests(spec)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"provenance", "sbom"}, attested(spec.withoutDefaultAttestations())); diff != "" {
		t.Errorf("without those by default: %s", diff)
	}
	spec.Attests = map[string]*string{"provenance": nil}
	if diff := cmp.Diff([]string{"sbom"}, attested(spec)); diff != "" {
		t.Error(diff)
	}
}

// What was built just now comes from the cache; caches are exported a second time
// only where the first build did not come to that.
func TestBuildsThatAreRepeated(t *testing.T) {
	o := buildx.Options{
		NoCache: true, NoCacheFilter: []string{"x"}, Pull: true, ProvenanceResponseMode: "max",
		CacheTo: []client.CacheOptionsEntry{{Type: "inline"}, {Type: "registry", Attrs: map[string]string{"ref": "r/c"}}},
	}
	for name, c := range map[string]struct {
		got    buildx.Options
		caches int
	}{"cached": {cached(o), 2}, "repeated": {repeated(o), 1}} {
		if c.got.NoCache || c.got.NoCacheFilter != nil || c.got.Pull || c.got.ProvenanceResponseMode != "max" || len(c.got.CacheTo) != c.caches {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
}

func TestAttestOptionsBuildAndExportNothingAgain(t *testing.T) {
	p := parsePlatforms(t, "linux/arm64")[0]
	spec := &Spec{Names: []string{"r/a:1", "r/a:2"}, Image: map[string]string{"unpack": "true", "store": "true", "compression": "zstd"}}
	spec.Options = buildx.Options{
		NoCache: true, NoCacheFilter: []string{"x"}, Pull: true,
		CacheTo: []client.CacheOptionsEntry{{Type: "inline"}, {Type: "registry", Attrs: map[string]string{"ref": "r/c"}}},
	}
	s := NewStore("")
	o := attestOptions(spec, p, s)
	if o.NoCache || o.NoCacheFilter != nil || o.Pull {
		t.Error("builds again")
	}
	if len(o.CacheTo) != 1 || o.CacheTo[0].Type != "inline" {
		t.Errorf("cache exports %v", o.CacheTo)
	}
	want := map[string]string{"tar": "false", "name": "r/a:1,r/a:2", "compression": "zstd", "oci-mediatypes": "true"}
	if diff := cmp.Diff(want, o.Exports[0].Attrs); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if v := o.Attests["provenance"]; v == nil || *v != "type=provenance,mode=min" || o.Exports[0].OutputStore != s {
		t.Errorf("attests %v", o.Attests)
	}
}

func TestWantedAttests(t *testing.T) {
	for name, c := range map[string]struct {
		spec Spec
		want []string
	}{
		"default":           {Spec{}, []string{"provenance"}},
		"off":               {Spec{Attests: map[string]*string{"provenance": nil}}, nil},
		"sbom":              {Spec{Attests: map[string]*string{"sbom": str("type=sbom")}}, []string{"provenance", "sbom"}},
		"docker types":      {Spec{Image: map[string]string{"oci-mediatypes": "false"}}, nil},
		"no default":        {*(&Spec{}).withoutDefaultAttestations(), nil},
		"no default, sbom":  {*(&Spec{Attests: map[string]*string{"sbom": str("")}}).withoutDefaultAttestations(), []string{"sbom"}},
		"no default, asked": {*(&Spec{Attests: map[string]*string{"provenance": str("mode=max")}}).withoutDefaultAttestations(), []string{"provenance"}},
	} {
		if diff := cmp.Diff(c.want, attested(&c.spec)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestSpecIsCheckedBeforeTheBuild(t *testing.T) {
	both := parsePlatforms(t, "linux/amd64", "linux/arm64")
	for reason, spec := range map[string]*Spec{
		"the platform is not built":         {Platforms: both, Image: map[string]string{"annotation[linux/s390x].k": "v"}},
		"unrecognized annotation type":      {Platforms: both, Image: map[string]string{"annotation-wrong.k": "v"}},
		"attestations need OCI media types": {Image: map[string]string{"oci-mediatypes": "false"}, Attests: map[string]*string{"sbom": str("")}},
	} {
		if err := checkSpec(spec); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	ok := &Spec{Platforms: both, Image: map[string]string{"annotation[linux/arm64].k": "v", "oci-mediatypes": "false"}}
	if err := checkSpec(ok); err != nil {
		t.Error(err)
	}
}

func TestCacheOfSeveralPlatformsIsNotSharedByAccident(t *testing.T) {
	p := parsePlatforms(t, "linux/arm/v7")[0]
	dir := t.TempDir()
	entries := []client.CacheOptionsEntry{
		{Type: "registry", Attrs: map[string]string{"ref": "r.test/a/c:cache", "mode": "max"}},
		{Type: "registry", Attrs: map[string]string{"ref": "r.test/a/c"}},
		{Type: "local", Attrs: map[string]string{"dest": dir, "src": dir}},
		{Type: "gha"},
		{Type: "s3", Attrs: map[string]string{"name": "a;b"}},
		{Type: "inline"},
	}
	want := []client.CacheOptionsEntry{
		{Type: "registry", Attrs: map[string]string{"ref": "r.test/a/c:cache-linux-arm-v7", "mode": "max"}},
		{Type: "registry", Attrs: map[string]string{"ref": "r.test/a/c:latest-linux-arm-v7"}},
		{Type: "local", Attrs: map[string]string{"dest": filepath.Join(dir, "linux-arm-v7"), "src": dir}},
		{Type: "gha", Attrs: map[string]string{"scope": "buildkit-linux-arm-v7"}},
		{Type: "s3", Attrs: map[string]string{"name": "a-linux-arm-v7;b-linux-arm-v7"}},
		{Type: "inline", Attrs: map[string]string{}},
	}
	if diff := cmp.Diff(want, cacheExports(entries, p, true)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
	if got := cacheExports(entries, p, false); got[0].Attrs["ref"] != "r.test/a/c:cache" {
		t.Errorf("one platform: %v", got)
	}
	imports := cacheImports(entries[:3], nil, p, true)
	var refs []string
	for _, e := range imports {
		refs = append(refs, e.Attrs["ref"]+e.Attrs["src"])
	}
	// The directory of the platform does not exist, so it is not looked at; that
	// it was told to read has no cache, which BuildKit says.
	if diff := cmp.Diff([]string{"r.test/a/c:cache-linux-arm-v7", "r.test/a/c:cache", "r.test/a/c:latest-linux-arm-v7", "r.test/a/c", dir}, refs); diff != "" {
		t.Errorf("imports (-want +got):\n%s", diff)
	}
	if entries[0].Attrs["ref"] != "r.test/a/c:cache" || entries[3].Attrs != nil {
		t.Error("the user's options were changed")
	}
}

func TestLocalCacheThatIsNotThereYetIsNotMissed(t *testing.T) {
	ps := parsePlatforms(t, "linux/amd64", "linux/arm64")
	dir := t.TempDir()
	from := []client.CacheOptionsEntry{{Type: "local", Attrs: map[string]string{"src": dir + "/c"}}}
	to := []client.CacheOptionsEntry{{Type: "local", Attrs: map[string]string{"dest": dir + "/./c"}}}
	for several, p := range map[bool]oci.Platform{true: ps[0], false: ps[1]} {
		if got := cacheImports(from, to, p, several); len(got) != 0 {
			t.Errorf("first use: %v", got)
		}
		// Nobody writes it: it may be a slip of the pen.
		if got := cacheImports(from, nil, p, several); len(got) != 1 {
			t.Errorf("missing: %v", got)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "c", "linux-amd64"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c", "linux-amd64", "index.json"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got := cacheImports(from, nil, ps[0], true)
	if len(got) != 1 || got[0].Attrs["src"] != filepath.Join(dir, "c", "linux-amd64") {
		t.Errorf("under the name of the platform: %v", got)
	}
}

func TestWhatIsSaidOfCachesAndDockerTypes(t *testing.T) {
	off := map[string]string{"oci-mediatypes": "false"}
	cache := []client.CacheOptionsEntry{{Type: "local", Attrs: map[string]string{"dest": "c"}}, {Type: "inline"}}
	for name, c := range map[string]struct {
		spec Spec
		want string
	}{
		"two caches":   {Spec{Platforms: parsePlatforms(t, "linux/amd64", "linux/arm/v7"), Options: buildx.Options{CacheTo: cache}}, "--cache-to: each platform has a cache of its own: linux/amd64 has dest=c/linux-amd64, linux/arm/v7 has dest=c/linux-arm-v7"},
		"one cache":    {Spec{Platforms: parsePlatforms(t, "linux/amd64"), Options: buildx.Options{CacheTo: cache}}, ""},
		"docker types": {Spec{Image: off}, "oci-mediatypes=false: the images have no provenance, which Docker's media types cannot hold; with --provenance=false this is not said"},
		"turned off":   {Spec{Image: off, Attests: map[string]*string{"provenance": nil}}, ""},
		"OCI types":    {Spec{}, ""},
	} {
		var said []string
		sink := report.Sink(func(e report.Event) { said = append(said, e.Target+": "+e.Text) })
		warnSplitCache(&c.spec, sink)
		warnUnattested(&c.spec, sink)
		if got := strings.Join(said, "\n"); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
