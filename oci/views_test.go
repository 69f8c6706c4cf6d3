package oci_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func TestParseIndexKeepsEveryMemberOfAnEntry(t *testing.T) {
	first := entry(digestA, `,"platform":{"architecture":"amd64","os":"windows","os.version":"10.0.17763.1","os.features":["win32k"]},"x-new":{"Deep":[1, 2]}`)
	b := index(first, entry(digestB, `,"artifactType":"application/x.test","data":"YQ=="`))
	idx, err := oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, b))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(idx.Manifests[0].Raw); got != first {
		t.Errorf("Raw is\n%s\nwant\n%s", got, first)
	}
	want := &oci.Platform{Architecture: "amd64", OS: "windows", OSVersion: "10.0.17763.1", OSFeatures: []string{"win32k"}}
	if diff := cmp.Diff(want, idx.Manifests[0].Platform); diff != "" {
		t.Errorf("platform (-want +got):\n%s", diff)
	}
	if e := idx.Manifests[1]; e.ArtifactType != "application/x.test" || string(e.Data) != "a" {
		t.Errorf("second entry: %+v", e)
	}
}

// The field of the body and the header agree, or nobody reads (CVE-2021-41190).
func TestMediaTypeOfBodyAndHeaderMustAgree(t *testing.T) {
	bare := []byte(`{"schemaVersion":2,"manifests":[]}`)
	for _, c := range []struct {
		name, header string
		body         []byte
		want         string // "" = refused
	}{
		{"equal", oci.MediaTypeIndex, index(), oci.MediaTypeIndex},
		{"header is another index type", oci.MediaTypeDockerList, index(), ""},
		{"header is a manifest type", oci.MediaTypeManifest, index(), ""},
		{"header is no manifest type", "application/json", index(), oci.MediaTypeIndex},
		{"no header", "", index(), oci.MediaTypeIndex},
		{"no field", oci.MediaTypeDockerList, bare, oci.MediaTypeDockerList},
		{"neither", "", bare, oci.MediaTypeIndex},
		{"neither, an image", "", []byte(`{"schemaVersion":2,"config":{}}`), oci.MediaTypeManifest},
	} {
		got, err := oci.DetectMediaType(c.header, c.body)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v; want %q", c.name, got, err, c.want)
		}
	}
	_, err := oci.ParseManifest(oci.NewBlob(oci.MediaTypeManifest, bare))
	refused(t, "an index that came as an image", "came as an image manifest but has manifests", err)
	_, err = oci.ParseIndex(oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"config":{"mediaType":"a","digest":"`+digestA+`","size":1}}`)))
	refused(t, "an image that came as an index", "came as an index but has config or layers", err)
}

func TestBodyMediaTypeIsTheFieldAlone(t *testing.T) {
	for body, want := range map[string]string{
		string(index()):                         oci.MediaTypeIndex,
		`{"schemaVersion":2,"manifests":[]}`:    "",
		`{"schemaVersion":2,"mediaType":"x/y"}`: "x/y",
	} {
		if got, err := oci.BodyMediaType([]byte(body)); err != nil || got != want {
			t.Errorf("BodyMediaType(%s) = %q, %v; want %q", body, got, err, want)
		}
	}
}

func TestParseConfigReadsTheWholePlatform(t *testing.T) {
	c, err := oci.ParseConfig([]byte(`{"architecture":"arm","os":"linux","variant":"v6","os.version":"1","os.features":["f"],"config":{"Env":["A=b"]},"Mediatype":1}`))
	if err != nil {
		t.Fatal(err)
	}
	want := oci.Platform{Architecture: "arm", OS: "linux", Variant: "v6", OSVersion: "1", OSFeatures: []string{"f"}}
	if diff := cmp.Diff(want, c.Platform); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, err = oci.ParseConfig([]byte(`{"architecture":"amd64","Architecture":"arm64","os":"linux"}`))
	refused(t, "Architecture", "letter case", err)
	_, err = oci.ParseConfig([]byte(`{"architecture":"amd64","architecture":"arm64"}`))
	refused(t, "two architectures", "duplicate key", err)
	if c, err := oci.ParseConfig([]byte(`{}`)); err != nil || !oci.IsUnknownPlatform(&c.Platform) {
		t.Errorf("an empty config has platform %+v, %v", c.Platform, err)
	}
}

func TestReferencesAreInTheOrderOfTheBody(t *testing.T) {
	layer := `{"mediaType":"l","digest":"` + digestB + `","size":1}`
	refs, err := oci.References(oci.NewBlob("", manifest(layer, layer)))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range refs {
		got = append(got, string(d.Digest))
	}
	if diff := cmp.Diff([]string{digestA, digestB, digestB}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if u := oci.Unique(refs); len(u) != 2 || string(u[0].Digest) != digestA {
		t.Errorf("Unique: %+v", u)
	}
}

// A descriptor's data is a hint to check: equal bytes pass, others never.
func TestCheckComparesSizeAndDigest(t *testing.T) {
	b := []byte("content")
	d := oci.NewBlob("t", b).Descriptor
	long := oci.Descriptor{Digest: digest.SHA512.FromBytes(b)}
	for _, ok := range []oci.Descriptor{d, {Digest: d.Digest}, {Size: d.Size}, {}, long} {
		if err := oci.Check(ok, b); err != nil {
			t.Errorf("Check(%+v): %v", ok, err)
		}
	}
	var m *oci.MismatchError
	if err := oci.Check(oci.Descriptor{Digest: d.Digest, Size: 9}, b); !errors.As(err, &m) || m.What != "size" || m.Got != "7" || m.Want != "9" {
		t.Errorf("size: %v", err)
	}
	if err := oci.Check(oci.Descriptor{Digest: digest.Digest(digestA)}, b); !errors.As(err, &m) || m.What != "digest" || m.Want != digestA {
		t.Errorf("digest: %v", err)
	}
	if err := oci.Check(oci.Descriptor{Digest: "sha256:zz"}, b); err == nil {
		t.Error("a digest that is none passes")
	}
}

func TestAttestationsAreToldByTheirAnnotations(t *testing.T) {
	at := func(a map[string]string) oci.Descriptor { return oci.Descriptor{Annotations: a} }
	if s, ok := oci.IsAttestation(at(map[string]string{oci.AnnotationReferenceType: "attestation-manifest", oci.AnnotationReferenceDigest: digestA})); !ok || string(s) != digestA {
		t.Errorf("got %q, %v", s, ok)
	}
	if s, ok := oci.IsAttestation(at(map[string]string{oci.AnnotationReferenceType: "attestation-manifest"})); !ok || s != "" {
		t.Errorf("without a digest: %q, %v", s, ok)
	}
	for _, d := range []oci.Descriptor{{}, at(map[string]string{oci.AnnotationReferenceDigest: digestA}), {Platform: &oci.Platform{OS: "unknown", Architecture: "unknown"}}} {
		if _, ok := oci.IsAttestation(d); ok {
			t.Errorf("%+v is taken for an attestation", d)
		}
	}
}
