package buildkit

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	solver "github.com/moby/buildkit/solver/result"
)

// fileSystem is a file system that nobody looks into.
type fileSystem struct {
	gateway.Reference
	of string
}

// mapped is a result with an image for each platform, whose configs say the same.
func mapped(t *testing.T, names ...string) *gateway.Result {
	t.Helper()
	res := gateway.NewResult()
	var list exptypes.Platforms
	for _, p := range parsePlatforms(t, names...) {
		id := "id of " + oci.FormatPlatform(p)
		res.AddRef(id, &fileSystem{of: id})
		res.AddAttestation(id, solver.Attestation[gateway.Reference]{Path: id})
		res.AddMeta(exptypes.ExporterImageConfigKey+"/"+id, []byte(text(t, p)))
		list.Platforms = append(list.Platforms, exptypes.Platform{ID: id, Platform: p})
	}
	res.AddMeta(exptypes.ExporterPlatformsKey, []byte(text(t, list)))
	return res
}

func TestOneImageIsTakenOutOfAMap(t *testing.T) {
	for name, tc := range map[string]struct {
		asked string
		made  []string
		want  string
	}{
		"the only one":          {"linux/amd64", []string{"linux/amd64"}, "linux/amd64"},
		"other spelling":        {"linux/arm64", []string{"linux/s390x", "linux/arm64/v8"}, "linux/arm64"},
		"its own variant first": {"linux/amd64/v3", []string{"linux/amd64", "linux/amd64/v3"}, "linux/amd64/v3"},
		"an open variant":       {"linux/amd64/v3", []string{"linux/amd64"}, "linux/amd64"},
		"another variant":       {"linux/arm/v7", []string{"linux/arm/v6"}, ""},
		"another processor":     {"linux/amd64", []string{"linux/arm64", "linux/s390x"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			res := mapped(t, tc.made...)
			asked := parsePlatforms(t, tc.asked)[0]
			others, err := single(res, asked)
			if tc.want == "" {
				want := &PlatformError{Platform: asked, Made: parsePlatforms(t, tc.made...)}
				if d := cmp.Diff(want, err); d != "" || res.Refs == nil {
					t.Errorf("result %+v\n%s", res, d)
				}
				return
			}
			if err != nil || len(others) != len(tc.made)-1 {
				t.Fatalf("others %v, %v", others, err)
			}
			id := "id of " + oci.FormatPlatform(parsePlatforms(t, tc.want)[0])
			ref, err := res.SingleRef()
			if r, ok := ref.(*fileSystem); err != nil || !ok || r.of != id || res.Refs != nil {
				t.Errorf("%+v, %v", ref, err)
			}
			if len(res.Attestations) != 1 || len(res.Attestations[id]) != 1 {
				t.Errorf("attestations %v", res.Attestations)
			}
			if err := checkPlatform(res, asked); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestImageConfigMustSayThePlatform(t *testing.T) {
	for config, want := range map[string]string{
		`{"os":"linux","architecture":"arm64","variant":"v8"}`: "",
		`{"os":"linux","architecture":"arm64"}`:                "",
		`{"os":"linux","architecture":"s390x"}`:                "the image config says linux/s390x, linux/arm64 was asked for",
		`{"os":"linux"}`:                                       "the image config says linux/, linux/arm64 was asked for",
		`{}`:                                                   "the image config is missing or names no platform, linux/arm64 was asked for",
		``:                                                     "the image config is missing or names no platform, linux/arm64 was asked for",
	} {
		res := gateway.NewResult()
		if config != "" {
			res.AddMeta(exptypes.ExporterImageConfigKey, []byte(config))
		}
		got := ""
		if err := checkPlatform(res, parsePlatforms(t, "linux/arm64")[0]); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: %q", config, got)
		}
	}
}
