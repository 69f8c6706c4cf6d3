package buildkit

import (
	"encoding/base64"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
)

func dg(c string) digest.Digest { return digest.Digest("sha256:" + strings.Repeat(c, 64)) }

func short(s string) string {
	for _, c := range "0123456789abcdef" {
		s = strings.ReplaceAll(s, strings.Repeat(string(c), 64), string(c))
	}
	return s
}

func platformOf(arch, manifest, config, attestation string) PublishedPlatform {
	p := PublishedPlatform{
		Platform: oci.Platform{OS: "linux", Architecture: arch},
		Image:    oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: dg(manifest), Size: 500},
		Config:   dg(config),
		Node:     "n-" + arch,
		Response: map[string]string{
			"containerimage.digest":        string(dg("f")),
			"containerimage.config.digest": string(dg("f")),
			"image.name":                   "per-node",
			"buildx.build.ref":             "b/n-" + arch + "/r",
			"buildx.build.provenance":      base64.StdEncoding.EncodeToString([]byte(`{"buildType":"` + arch + `"}`)),
			"cache.manifest":               "same",
		},
	}
	if attestation != "" {
		p.Attestation = dg(attestation)
	}
	return p
}

func writtenMetadata(t *testing.T, p Published) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.json")
	if err := WriteMetadata(path, Metadata(p)); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return short(string(b))
}

// The reported digests are those of what the tag names (build-push-action#461
// and others).
func TestMetadataOfSeveralPlatforms(t *testing.T) {
	got := writtenMetadata(t, Published{
		Index:     oci.Descriptor{MediaType: oci.MediaTypeIndex, Digest: dg("1"), Size: 900},
		Names:     []string{"r/app:1", "r/app:2"},
		Platforms: []PublishedPlatform{platformOf("amd64", "2", "3", "4"), platformOf("arm64", "5", "6", "")},
	})
	want := `{
  "buildx.build.provenance/linux/amd64": {
    "buildType": "amd64"
  },
  "buildx.build.provenance/linux/arm64": {
    "buildType": "arm64"
  },
  "buildx.build.ref": "b/n-amd64/r",
  "buildx.build.ref/linux/amd64": "b/n-amd64/r",
  "buildx.build.ref/linux/arm64": "b/n-arm64/r",
  "cache.manifest": "same",
  "containerimage.descriptor": {
    "mediaType": "application/vnd.oci.image.index.v1+json",
    "digest": "sha256:1",
    "size": 900
  },
  "containerimage.digest": "sha256:1",
  "image.name": "r/app:1,r/app:2",
  "manifold.platforms": {
    "linux/amd64": {
      "attestation": "sha256:4",
      "config": "sha256:3",
      "digest": "sha256:2",
      "node": "n-amd64",
      "size": 500
    },
    "linux/arm64": {
      "config": "sha256:6",
      "digest": "sha256:5",
      "node": "n-arm64",
      "size": 500
    }
  }
}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetadataOfOnePlatformHasTheConfigOnlyWithoutAttestation(t *testing.T) {
	p := Published{
		Index:     oci.Descriptor{MediaType: oci.MediaTypeIndex, Digest: dg("1"), Size: 900},
		Names:     []string{"r/app:1"},
		Platforms: []PublishedPlatform{platformOf("amd64", "2", "3", "")},
	}
	want := `{
  "buildx.build.provenance": {
    "buildType": "amd64"
  },
  "buildx.build.ref": "b/n-amd64/r",
  "cache.manifest": "same",
  "containerimage.config.digest": "sha256:3",
  "containerimage.descriptor": {
    "mediaType": "application/vnd.oci.image.index.v1+json",
    "digest": "sha256:1",
    "size": 900
  },
  "containerimage.digest": "sha256:1",
  "image.name": "r/app:1",
  "manifold.platforms": {
    "linux/amd64": {
      "config": "sha256:3",
      "digest": "sha256:2",
      "node": "n-amd64",
      "size": 500
    }
  }
}`
	if diff := cmp.Diff(want, writtenMetadata(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.Platforms[0].Attestation = dg("4")
	if _, ok := Metadata(p)["containerimage.config.digest"]; ok {
		t.Error("attested image has containerimage.config.digest")
	}
}

func TestMetadataRecordsWarningsWhenGiven(t *testing.T) {
	p := Published{Warnings: []client.VertexWarning{{Short: []byte("w")}}}
	if _, ok := Metadata(p)["buildx.build.warnings"]; !ok {
		t.Error("warnings are missing")
	}
	if _, ok := Metadata(Published{})["buildx.build.warnings"]; ok {
		t.Error("warnings without any")
	}
}

func TestPublishedPlatformsKeepImageAndAttestationApart(t *testing.T) {
	image := build.Image{
		Platform: oci.Platform{OS: "linux", Architecture: "amd64"}, Node: "n", Config: dg("3"),
		Manifest:     oci.Blob{Descriptor: oci.Descriptor{Digest: dg("2"), Size: 5}},
		Attestations: []oci.Blob{{Descriptor: oci.Descriptor{Digest: dg("4")}}},
		Response:     map[string]string{"k": "v"},
	}
	want := []PublishedPlatform{{
		Platform: image.Platform, Node: "n", Config: dg("3"), Image: image.Manifest.Descriptor,
		Attestation: dg("4"), Response: image.Response,
	}}
	if diff := cmp.Diff(want, PublishedPlatforms([]build.Image{image})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeResponseKeepsWhatIsNotStructured(t *testing.T) {
	encoded := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	in := map[string]string{
		"object": encoded(`{"a":1}`), "list": encoded(`[{"a":1}]`), "empty": encoded(`{}`), "number": encoded(`7`),
		"text": "sha256:x", "result.json": `{"r":1}`,
	}
	got := map[string]string{}
	for k, v := range decodeResponse(in) {
		switch v := v.(type) {
		case string:
			got[k] = "text " + v
		default:
			got[k] = "json"
		}
	}
	want := map[string]string{
		"object": "json", "list": "json", "result.json": "json",
		"empty": "text " + in["empty"], "number": "text " + in["number"], "text": "text sha256:x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIIDFileIsRemovedBeforeAndWrittenAfter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "iid")
	if err := RemoveResult(path); err != nil {
		t.Errorf("nothing to remove: %v", err)
	}
	for _, id := range []string{"sha256:first", "sha256:second"} {
		if err := WriteIIDFile(path, id); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != id {
			t.Errorf("file has %q, %v; want %q", b, err, id)
		}
	}
	if err := RemoveResult(path); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("file is still there: %v", err)
	}
}

func TestNoPathWritesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, err := range []error{RemoveResult(""), WriteIIDFile("", "x"), WriteMetadata("", nil)} {
		if err != nil {
			t.Error(err)
		}
	}
	if entries, err := os.ReadDir("."); err != nil || len(entries) != 0 {
		t.Errorf("wrote %v, %v", entries, err)
	}
}

func TestImageIDPrefersTheConfig(t *testing.T) {
	resp := map[string]string{"containerimage.digest": "index"}
	if got := imageID(resp); got != "index" {
		t.Errorf("id %q", got)
	}
	resp["containerimage.config.digest"] = "config"
	if got := imageID(resp); got != "config" {
		t.Errorf("id %q", got)
	}
}
