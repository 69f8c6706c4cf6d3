package registrytest_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
)

// reply is an answer as a client has it.
type reply struct {
	status int
	header http.Header
	body   string
	err    error
}

// send speaks to the proxy on a connection of its own, so that net/http does
// not repeat a request by itself.
func send(t *testing.T, r *registrytest.Registry, method, path, body string, headers ...string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.URL()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Close = true
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	if reads := method == "GET" || method == "HEAD"; reads && req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", oci.MediaTypeIndex+", "+oci.MediaTypeManifest)
	}
	resp, err := r.Client().Do(req)
	if err != nil {
		return reply{err: err}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return reply{resp.StatusCode, resp.Header, string(b), err}
}

func (a reply) want(t *testing.T, status int) reply {
	t.Helper()
	if a.err != nil || a.status != status {
		t.Fatalf("status %d, error %v, want %d: %s", a.status, a.err, status, a.body)
	}
	return a
}

func twoPlatforms(t *testing.T) registrytest.Content {
	t.Helper()
	amd64 := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	arm64 := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})
	return registrytest.Index(t, registrytest.IndexOptions{}, amd64, arm64, registrytest.Attestation(t, amd64))
}

func TestPushedContentIsListedTaggedAndUntagged(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		idx := twoPlatforms(t)
		if got := r.Push("team/app", "1", idx); got != idx.Digest() {
			t.Errorf("Push = %s", got)
		}
		untagged := r.Push("team/app", "", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
		if got := r.Summary("team/app"); got != "index 1 manifest 4" {
			t.Errorf("Summary = %q", got)
		}
		if diff := cmp.Diff(map[string]digest.Digest{"1": idx.Digest()}, r.Tags("team/app")); diff != "" {
			t.Error(diff)
		}
		for _, s := range r.Manifests("team/app") {
			if want := s.Digest == idx.Digest(); (len(s.Tags) == 1) != want {
				t.Errorf("%s has tags %v", s.Digest, s.Tags)
			}
		}
		r.RemoveManifest("team/app", untagged)
		if got := r.Summary("team/app"); got != "index 1 manifest 3" {
			t.Errorf("after removal: %q", got)
		}
		if len(r.Log()) != 0 {
			t.Errorf("the kit's own requests are in the log:\n%s", r.Transcript())
		}
	})
}

func TestEmptyRepositoryHoldsNothing(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		if got := r.Summary("absent"); got != "" {
			t.Errorf("Summary = %q", got)
		}
		if got := r.Tags("absent"); len(got) != 0 {
			t.Errorf("Tags = %v", got)
		}
	})
}

func TestManifestsPutThroughTheProxyAreListed(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
		for _, b := range img.Blobs {
			r.PushBlob("app", b)
		}
		send(t, r, "PUT", "/v2/app/manifests/1", string(img.Root.Bytes), "Content-Type", img.Root.MediaType).want(t, http.StatusCreated)
		if got := r.Summary("app"); got != "manifest 1" {
			t.Errorf("Summary = %q", got)
		}
		want := []registrytest.Request{{
			Method: "PUT", Path: "/v2/app/manifests/1", Host: r.Host, Status: http.StatusCreated,
			Sent: img.Root.Size, Received: 0, ContentType: img.Root.MediaType, Agent: "Go-http-client/1.1", BodyDigest: img.Digest(),
		}}
		if diff := cmp.Diff(want, r.Log()); diff != "" {
			t.Error(diff)
		}
	})
}

// What Features promise is what suites skip or expect.
func TestFeaturesAreTrue(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
		r.Push("app", "1", img)
		check := func(what string, promised bool, status, yes int) {
			t.Helper()
			if promised != (status == yes) {
				t.Errorf("%s: promised %v, status %d", what, promised, status)
			}
		}
		got := send(t, r, "GET", "/v2/app/referrers/"+img.Digest().String(), "")
		check("Referrers", r.Features.Referrers, got.status, http.StatusOK)
		got = send(t, r, "POST", "/v2/other/blobs/uploads/?mount="+img.Blobs[0].Digest.String()+"&from=app", "")
		check("Mounts", r.Features.Mounts, got.status, http.StatusCreated)
		got = send(t, r, "PUT", "/v2/empty/manifests/1", string(img.Root.Bytes), "Content-Type", img.Root.MediaType)
		check("ChecksBlobs", !r.Features.ChecksBlobs, got.status, http.StatusCreated)
		idx := registrytest.Index(t, registrytest.IndexOptions{}, registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{}))
		got = send(t, r, "PUT", "/v2/empty/manifests/1", string(idx.Root.Bytes), "Content-Type", idx.Root.MediaType)
		check("ChecksChildren", !r.Features.ChecksChildren, got.status, http.StatusCreated)
		got = send(t, r, "DELETE", "/v2/app/manifests/1", "")
		check("TagDelete", r.Features.TagDelete, got.status, http.StatusAccepted)
		if r.Features.TagDelete && r.Summary("app") != "manifest 1" {
			t.Error("the manifest went with its tag")
		}
	})
}

func TestStylesAreAcceptedAndKept(t *testing.T) {
	styles := map[string]registrytest.Style{
		"compact": {}, "newline": {Newline: true}, "two spaces": {Indent: "  "}, "three spaces": {Indent: "   ", Newline: true},
		"tabs": {Indent: "\t"}, "crlf": {Indent: "  ", CRLF: true, Newline: true},
	}
	r := registrytest.Distribution(t)
	digests := map[digest.Digest]string{}
	for name, style := range styles {
		for _, docker := range []bool{false, true} {
			img := registrytest.Image(t, "linux/arm/v7", registrytest.ImageOptions{
				Docker: docker, Style: style, Extra: map[string]any{"x-unknown": []int{1}}, OSVersion: "1.2", OSFeatures: []string{"f"},
			})
			idx := registrytest.Index(t, registrytest.IndexOptions{Docker: docker, Style: style, Extra: map[string]any{"x": 1}}, img)
			key := fmt.Sprint(name, docker)
			if other, dup := digests[idx.Digest()]; dup {
				t.Errorf("%s and %s are the same bytes", key, other)
			}
			digests[idx.Digest()] = key
			r.Push("app", "", idx)
			for _, want := range idx.Manifests() {
				got, ok := r.Manifest("app", want.Digest.String())
				if !ok || !bytes.Equal(got.Bytes, want.Bytes) || got.MediaType != want.MediaType {
					t.Errorf("%s: %s differs when read back", key, want.MediaType)
				}
			}
		}
	}
}

// Goldens of other packages hold these digests.
func TestFixturesAreDeterministic(t *testing.T) {
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Pad: 1 << 16, Layers: 2})
	again := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Pad: 1 << 16, Layers: 2})
	if diff := cmp.Diff(img, again); diff != "" {
		t.Error(diff)
	}
	if n := img.Blobs[1].Size; n < 1<<16 {
		t.Errorf("the padded layer has %d bytes", n)
	}
	if len(img.Blobs) != 3 || img.Blobs[1].Digest == img.Blobs[2].Digest {
		t.Errorf("layers = %v", img.Blobs[1:])
	}
}

func TestFixturesSayWhatTheyWereToldTo(t *testing.T) {
	img := registrytest.Image(t, "windows/amd64", registrytest.ImageOptions{OSVersion: "10.0.1"})
	config, err := oci.ParseConfig(img.Blobs[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	want := oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.1"}
	if diff := cmp.Diff(want, config.Platform); diff != "" {
		t.Error(diff)
	}
	bare := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{NoPlatform: true})
	config, err = oci.ParseConfig(bare.Blobs[0].Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if config.Platform.OS != "" || bare.Entry().Platform != nil {
		t.Errorf("an image without platform has %v, entry %v", config.Platform, bare.Entry().Platform)
	}
	subject, ok := oci.IsAttestation(registrytest.Attestation(t, img).Entry())
	if !ok || subject != img.Digest() {
		t.Errorf("attestation of %s, %v", subject, ok)
	}
	if idx, err := oci.ParseIndex(twoPlatforms(t).Root); err != nil || len(idx.Manifests) != 3 {
		t.Errorf("index = %+v, %v", idx, err)
	}
}

func TestReferrersFindAnArtifact(t *testing.T) {
	r := registrytest.WithReferrers(t)
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	r.Push("app", "1", img)
	artifact := registrytest.Artifact(t, registrytest.ArtifactOptions{Subject: &img.Root.Descriptor})
	r.Push("app", "", artifact)
	got := send(t, r, "GET", "/v2/app/referrers/"+img.Digest().String(), "").want(t, http.StatusOK)
	if !strings.Contains(got.body, artifact.Digest().String()) {
		t.Errorf("referrers = %s", got.body)
	}
}
