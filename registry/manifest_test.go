package registry_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

func TestManifestsOfEveryKindAreReadByteForByte(t *testing.T) {
	styled := registrytest.Style{Indent: "   ", CRLF: true, Newline: true}
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		for name, docker := range map[string]bool{"oci": false, "docker": true} {
			img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Docker: docker, Style: styled})
			idx := registrytest.Index(t, registrytest.IndexOptions{Docker: docker, Style: styled}, img)
			r.Push("d/"+name, "1", idx)
			repo := repo(t, r.Host, "d/"+name, registry.Options{})
			for _, want := range []oci.Blob{idx.Root, img.Root} {
				got, err := repo.FetchManifest(t.Context(), want.Descriptor)
				noError(t, err)
				if d := cmp.Diff(want, got); d != "" {
					t.Error(d)
				}
				d, err := repo.Resolve(t.Context(), want.Digest.String())
				noError(t, err)
				if d := cmp.Diff(want.Descriptor, d); d != "" {
					t.Error(d)
				}
			}
			got, err := repo.Manifest(t.Context(), "1")
			noError(t, err)
			if d := cmp.Diff(idx.Root, got); d != "" {
				t.Error(d)
			}
		}
	})
}

func TestAcceptIsOneLineWithEverything(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Use(registrytest.OneHeaderLine())
	img := image(t)
	r.Push("d/x", "1", img)
	_, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), img.Digest().String())
	noError(t, err)
	want := []string{strings.Join([]string{
		oci.MediaTypeIndex, oci.MediaTypeManifest, oci.MediaTypeDockerList, oci.MediaTypeDockerManifest, "*/*",
	}, ", ")}
	if d := cmp.Diff(want, r.Log()[0].Accept); d != "" {
		t.Error(d)
	}
}

func TestResolveIsOneHeadAndAGetOnlyWhenThatLeavesSomethingOpen(t *testing.T) {
	for name, tc := range map[string]struct {
		fault *registrytest.Fault
		want  []string
	}{
		"all there":  {nil, []string{"HEAD manifests OK"}},
		"no digest":  {&registrytest.Fault{Method: "HEAD", Rewrite: registrytest.StripHeader("Docker-Content-Digest", "Etag")}, []string{"HEAD manifests OK", "GET manifests OK"}},
		"no type":    {&registrytest.Fault{Method: "HEAD", Rewrite: registrytest.SetHeader("Content-Type", "application/octet-stream")}, []string{"HEAD manifests OK", "GET manifests OK"}},
		"no HEAD":    {&registrytest.Fault{Method: "HEAD", Status: 405}, []string{"HEAD manifests Method Not Allowed", "GET manifests OK"}},
		"proxy page": {&registrytest.Fault{Method: "HEAD", Status: 404, Header: http.Header{"Content-Type": {"text/html"}}}, []string{"HEAD manifests Not Found", "GET manifests OK"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			img := image(t)
			r.Push("d/x", "1", img)
			if tc.fault != nil {
				r.Fault(*tc.fault)
			}
			d, err := repo(t, r.Host, "d/x", registry.Options{}).Resolve(t.Context(), "1")
			noError(t, err)
			if d := cmp.Diff(img.Root.Descriptor, d); d != "" {
				t.Error(d)
			}
			wantLog(t, r, tc.want...)
		})
	}
}

func TestMissingDigestHeaderIsMadeUpForByTheBytes(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Use(registrytest.Rewriting("", "", registrytest.StripHeader("Docker-Content-Digest", "Etag")))
	img := image(t)
	r.Push("d/x", "", img)
	repo := repo(t, r.Host, "d/x", registry.Options{})
	noError(t, repo.PutTag(t.Context(), "1", img.Root))
	got, err := repo.Manifest(t.Context(), "1")
	noError(t, err)
	if got.Digest != img.Digest() {
		t.Errorf("digest %s, want %s", got.Digest, img.Digest())
	}
}

func TestContentThatIsNotWhatWasAskedForIsRefused(t *testing.T) {
	other := digest.FromString("other")
	for name, tc := range map[string]struct {
		identifier string
		rewrite    registrytest.Rewrite
		want       string
	}{
		"re-serialised, old digest in the header": {"1", registrytest.Reserialize(registrytest.Style{Indent: "  "}), "digest is"},
		"corrupt by digest":                       {"", registrytest.CorruptByte(60), ""},
		"header with another digest":              {"1", registrytest.SetHeader("Docker-Content-Digest", other.String()), "digest is"},
		"header that is no digest":                {"1", registrytest.SetHeader("Docker-Content-Digest", "sha256:abc"), "sha256:abc"},
		"another type in the header":              {"1", registrytest.SetHeader("Content-Type", oci.MediaTypeIndex), "mediaType"},
		"HTML with status 200":                    {"1", registrytest.Reply(200, "<html><title>Log in</title>"), "not JSON"},
		"over the limit":                          {"1", registrytest.Reply(200, strings.Repeat(" ", oci.MaxManifestSize+1)), "limit"},
		"byte order mark":                         {"1", registrytest.Reply(200, "\xef\xbb\xbf{}"), "byte order mark"},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Style: registrytest.Style{Indent: "   "}})
			r.Push("d/x", "1", img)
			r.Fault(registrytest.Fault{Method: "GET", Rewrite: tc.rewrite})
			identifier := tc.identifier
			if identifier == "" {
				identifier = img.Digest().String()
			}
			_, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), identifier)
			e := asError(t, err)
			if e.Cause == nil || !strings.Contains(err.Error(), tc.want) || registry.Absent(err) {
				t.Errorf("got %v, want one about %q", err, tc.want)
			}
		})
	}
}

func TestCompressedAnswersAreDecodedBeforeTheyAreHashed(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	r.Push("d/x", "1", img)
	r.Fault(registrytest.Fault{Method: "GET", Rewrite: registrytest.Gzip()})
	got, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
	noError(t, err)
	if d := cmp.Diff(img.Root, got); d != "" {
		t.Error(d)
	}
}

func TestFetchManifestChecksSizeAndMediaType(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	r.Push("d/x", "1", img)
	repo := repo(t, r.Host, "d/x", registry.Options{})
	for what, change := range map[string]func(*oci.Descriptor){
		"size":       func(d *oci.Descriptor) { d.Size++ },
		"media type": func(d *oci.Descriptor) { d.MediaType = oci.MediaTypeDockerManifest },
	} {
		d := img.Root.Descriptor
		change(&d)
		_, err := repo.FetchManifest(t.Context(), d)
		var mismatch *oci.MismatchError
		if !errors.As(err, &mismatch) || mismatch.What != what {
			t.Errorf("%s: got %v", what, err)
		}
	}
	if _, err := repo.FetchManifest(t.Context(), oci.Descriptor{Digest: img.Digest()}); err != nil {
		t.Errorf("a descriptor that only has a digest: %v", err)
	}
}

func TestAbsentIsWhatTheRegistrySaysAndNothingElse(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		r.Push("d/x", "1", image(t))
		missing := digest.FromString("missing").String()
		for _, path := range []string{"d/x", "no/such"} {
			repo := repo(t, r.Host, path, registry.Options{})
			for _, identifier := range []string{"nope", missing} {
				_, errGet := repo.Manifest(t.Context(), identifier)
				_, errHead := repo.Resolve(t.Context(), identifier)
				if !registry.Absent(errGet) || !registry.Absent(errHead) {
					t.Errorf("%s %s: GET %v, HEAD %v", path, identifier, errGet, errHead)
				}
			}
		}
	})
}

func TestWhatCouldNotBeAskedIsNotAbsent(t *testing.T) {
	html := http.Header{"Content-Type": {"text/html"}}
	for name, f := range map[string]registrytest.Fault{
		"401":            {Status: 401},
		"403":            {Status: 403, Body: `{"errors":[{"code":"DENIED"}]}`},
		"429":            {Status: 429},
		"500":            {Status: 500},
		"404 HTML":       {Status: 404, Header: html, Body: "<html><head><title>404 Not\n Found</title></head>"},
		"404 empty":      {Status: 404},
		"200 HTML":       {Status: 200, Header: html, Body: "<html><title>Welcome</title>"},
		"404 other code": {Status: 404, Body: `{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN"}]}`},
		"cut":            {Cut: registrytest.CutBefore},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			r.Push("d/x", "1", image(t))
			f.Times = registrytest.Always
			r.Fault(f)
			repo := repo(t, r.Host, "d/x", registry.Options{})
			_, errGet := repo.Manifest(t.Context(), "1")
			_, errHead := repo.Resolve(t.Context(), "1")
			for _, err := range []error{errGet, errHead} {
				if err == nil || registry.Absent(err) || strings.Contains(err.Error(), "<html") {
					t.Errorf("got %v", err)
				}
			}
		})
	}
}

func TestPutManifestIsOnePutOfTheSameBytes(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Style: registrytest.Style{Indent: "\t"}})
		for _, b := range img.Blobs {
			r.PushBlob("d/x", b)
		}
		repo := repo(t, r.Host, "d/x", registry.Options{})
		noError(t, repo.PutManifest(t.Context(), img.Root))
		noError(t, repo.PutTag(t.Context(), "1", img.Root))
		wantLog(t, r, "PUT manifests Created", "PUT manifests Created")
		got, _ := r.Manifest("d/x", "1")
		if d := cmp.Diff(img.Root, got); d != "" {
			t.Error(d)
		}
	})
}

func TestManifestWhoseBytesAreNotItsDigestsIsNotSent(t *testing.T) {
	r := registrytest.Distribution(t)
	b := image(t).Root
	b.Bytes = append([]byte(" "), b.Bytes...)
	if err := repo(t, r.Host, "d/x", registry.Options{}).PutTag(t.Context(), "1", b); err == nil {
		t.Error("no error")
	}
	wantLog(t, r)
}

func TestAnotherDigestInTheAnswerToAPutIsAnError(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	r.Push("d/x", "", img)
	r.Fault(registrytest.Fault{Method: "PUT", Times: 2, Rewrite: registrytest.SetHeader("Docker-Content-Digest", digest.FromString("x").String())})
	repo := repo(t, r.Host, "d/x", registry.Options{})
	for _, err := range []error{repo.PutManifest(t.Context(), img.Root), repo.PutTag(t.Context(), "1", img.Root)} {
		var mismatch *oci.MismatchError
		if !errors.As(err, &mismatch) {
			t.Errorf("got %v", err)
		}
	}
}

func TestLostAnswerToAPutIsSettledByReadingBack(t *testing.T) {
	for name, tc := range map[string]struct {
		fault registrytest.Fault
		want  []string
	}{
		"done":     {registrytest.Fault{Cut: registrytest.LoseAnswer}, []string{"PUT manifests Created", "GET manifests OK"}},
		"not done": {registrytest.Fault{Cut: registrytest.CutBefore}, []string{"PUT manifests ", "GET manifests Not Found", "PUT manifests Created"}},
		"503":      {registrytest.Fault{Status: 503}, []string{"PUT manifests Service Unavailable", "GET manifests Not Found", "PUT manifests Created"}},
	} {
		for _, verb := range []string{"manifest", "tag"} {
			if verb == "tag" && name != "done" {
				continue // see the next test
			}
			t.Run(name+" "+verb, func(t *testing.T) {
				r := registrytest.Distribution(t)
				img := image(t)
				for _, b := range img.Blobs {
					r.PushBlob("d/x", b)
				}
				f := tc.fault
				f.Method = "PUT"
				r.Fault(f)
				repo := repo(t, r.Host, "d/x", registry.Options{})
				put := func() error { return repo.PutManifest(t.Context(), img.Root) }
				if verb == "tag" {
					put = func() error { return repo.PutTag(t.Context(), "1", img.Root) }
				}
				noError(t, put())
				var got []string
				for _, q := range r.Log() {
					got = append(got, q.Method+" manifests "+http.StatusText(q.Status))
				}
				want := tc.want
				if name == "done" {
					got[0], want = "PUT", append([]string{"PUT"}, want[1:]...)
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Errorf("%s\n%s", d, r.Transcript())
				}
			})
		}
	}
}

// Whether a tag is written again depends on what it named before, which is the
// caller's to know: it gets what the tag names now.
func TestTagWhoseWriteIsUnsettledIsWrittenOnce(t *testing.T) {
	for name, f := range map[string]registrytest.Fault{"not done": {Cut: registrytest.CutBefore}, "503": {Status: 503}} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " ", there), func(t *testing.T) {
				r := registrytest.Distribution(t)
				img := image(t)
				r.Push("d/x", "", img)
				var want digest.Digest
				if there {
					other := registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{})
					want = r.Push("d/x", "1", other)
				}
				r.Reset()
				f.Method = "PUT"
				r.Fault(f)
				err := repo(t, r.Host, "d/x", registry.Options{}).PutTag(t.Context(), "1", img.Root)
				var unsettled *registry.UnsettledError
				if !errors.As(err, &unsettled) || unsettled.Found != want {
					t.Errorf("got %v, want what the tag names: %q", err, want)
				}
				if n := r.Count(registrytest.Filter{Method: "PUT"}); n != 1 {
					t.Errorf("%d PUTs, want 1", n)
				}
			})
		}
	}
}

func TestTagThatCannotBeReadBackIsNotWrittenAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	r.Push("d/x", "", img)
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutBefore})
	r.Fault(registrytest.Fault{Method: "GET", Status: 403})
	err := repo(t, r.Host, "d/x", registry.Options{}).PutTag(t.Context(), "1", img.Root)
	if e := asError(t, err); e.Status != 0 || e.Op != "write tag" {
		t.Errorf("got %v, want the lost answer to the PUT", err)
	}
	if n := r.Count(registrytest.Filter{Method: "PUT"}); n != 1 {
		t.Errorf("%d PUTs, want 1", n)
	}
}

func TestRefusedTagIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		fault     registrytest.Fault
		immutable bool
	}{
		"ECR":           {registrytest.Fault{Status: 400, Body: `{"errors":[{"code":"TAG_INVALID","message":"immutable"}]}`}, true},
		"zot":           {registrytest.Fault{Status: 403, Body: `{"errors":[{"code":"DENIED","message":"no"}]}`}, true},
		"Quay":          {registrytest.Fault{Status: 409, Body: `{"errors":[{"code":"TAG_IMMUTABLE"}]}`}, true},
		"Harbor":        {registrytest.Fault{Status: 412, Body: `{"errors":[{"code":"PRECONDITION"}]}`}, true},
		"invalid bytes": {registrytest.Fault{Status: 400, Body: `{"errors":[{"code":"MANIFEST_INVALID"}]}`}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			f := tc.fault
			f.Method, f.Times = "PUT", 2
			r.Fault(f)
			img := image(t)
			repo := repo(t, r.Host, "d/x", registry.Options{})
			if err := repo.PutTag(t.Context(), "1", img.Root); err == nil || registry.Immutable(err) != tc.immutable {
				t.Errorf("tag: immutable %v: %v", registry.Immutable(err), err)
			}
			if err := repo.PutManifest(t.Context(), img.Root); err == nil || registry.Immutable(err) {
				t.Errorf("by digest: immutable %v: %v", registry.Immutable(err), err)
			}
			if n := len(r.Log()); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

func TestMissingChildIsNamed(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	idx := registrytest.Index(t, registrytest.IndexOptions{}, img)
	err := repo(t, r.Host, "d/x", registry.Options{}).PutManifest(t.Context(), idx.Root)
	if !registry.ChildUnknown(err) || !strings.Contains(err.Error(), img.Digest().String()) {
		t.Errorf("got %v", err)
	}
}

func TestErrorTextIsObjectVerbAnswer(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Push("team/app", "1", image(t))
	_, err := repo(t, r.Host, "team/app", registry.Options{}).Manifest(t.Context(), "2")
	want := r.Host + "/team/app:2: read manifest: 404 MANIFEST_UNKNOWN: manifest unknown"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestClosedConnectionIsToldInWords(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Fault(registrytest.Fault{Cut: registrytest.CutBefore, Times: registrytest.Always})
	_, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
	if err == nil || !strings.Contains(err.Error(), "connection") {
		t.Errorf("got %v", err)
	}
}

func TestDeletingATagLeavesItsManifest(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := image(t)
		r.Push("d/x", "1", img)
		r.Push("d/x", "2", img)
		repo := repo(t, r.Host, "d/x", registry.Options{})
		err := repo.DeleteTag(t.Context(), "1")
		if r.Features.TagDelete {
			noError(t, err)
		} else if !registry.Unsupported(err) {
			t.Errorf("got %v, want unsupported", err)
		}
		if _, ok := r.Manifest("d/x", img.Digest().String()); !ok {
			t.Error("the manifest is gone")
		}
		if err := repo.DeleteTag(t.Context(), img.Digest().String()); err == nil {
			t.Error("a digest was taken for a tag")
		}
		if n := len(r.Log()); n != 1 {
			t.Errorf("%d requests, want 1", n)
		}
	})
}

func TestDeletingAManifest(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := image(t)
		r.Push("d/x", "", img)
		repo := repo(t, r.Host, "d/x", registry.Options{})
		noError(t, repo.DeleteManifest(t.Context(), img.Digest()))
		if _, ok := r.Manifest("d/x", img.Digest().String()); ok {
			t.Error("still there")
		}
		if err := repo.DeleteManifest(t.Context(), img.Digest()); !registry.Absent(err) {
			t.Errorf("again: got %v, want absent", err)
		}
		if err := repo.DeleteManifest(t.Context(), "latest"); err == nil {
			t.Error("a tag was taken for a digest")
		}
	})
}

func TestManifestWhoseBodyBreaksOffIsAskedForAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	r.Push("d/x", "1", img)
	r.Fault(registrytest.Fault{Method: "GET", Times: 2, Cut: registrytest.CutAnswer, After: 20})
	b, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
	noError(t, err)
	if b.Digest != img.Digest() {
		t.Errorf("got %s", b.Digest)
	}
	r.Fault(registrytest.Fault{Method: "GET", Times: 3, Cut: registrytest.CutAnswer, After: 20})
	if _, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1"); err == nil || registry.Absent(err) {
		t.Errorf("got %v", err)
	}
}
