package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
)

func TestNewBlobCostsOnePostAndOnePut(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b, opened := image(t).Blobs[1], 0
		repo := repo(t, r.Host, "d/x", registry.Options{})
		got, err := repo.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
		noError(t, err)
		if got != registry.Uploaded || opened != 1 {
			t.Errorf("%s, opened %d times", got, opened)
		}
		wantLog(t, r, "POST uploads Accepted", "PUT uploads Created")
		if !r.HasBlob("d/x", b.Digest) {
			t.Error("the blob is not there")
		}
	})
}

func TestBlobThatIsThereCostsOnePost(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		if !r.Features.Mounts {
			t.Skip("mounts are not answered with 201")
		}
		b, opened := image(t).Blobs[1], 0
		r.PushBlob("d/x", b)
		got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
		noError(t, err)
		if got != registry.Present || opened != 0 {
			t.Errorf("%s, opened %d times", got, opened)
		}
		wantLog(t, r, "POST uploads Created")
	})
}

func TestMountCostsOnePostAndNoBytes(t *testing.T) {
	r := registrytest.Distribution(t)
	b, opened := image(t).Blobs[1], 0
	r.PushBlob("s/img", b)
	got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, &opened))
	noError(t, err)
	if got != registry.Mounted || opened != 0 || !r.HasBlob("d/x", b.Digest) {
		t.Errorf("%s, opened %d times", got, opened)
	}
	wantLog(t, r, "POST uploads Created")
}

func TestRefusedMountsEndInOrdinaryUploads(t *testing.T) {
	for name, tc := range map[string]struct {
		fault *registrytest.Fault
		want  []string
	}{
		"202": {nil, []string{"POST uploads Accepted", "PUT uploads Created"}},
		"401": {&registrytest.Fault{Status: 401}, []string{"POST uploads Unauthorized", "POST uploads Accepted", "PUT uploads Created"}},
		"403": {&registrytest.Fault{Status: 403}, []string{"POST uploads Forbidden", "POST uploads Accepted", "PUT uploads Created"}},
		"404": {&registrytest.Fault{Status: 404}, []string{"POST uploads Not Found", "POST uploads Accepted", "PUT uploads Created"}},
		"405": {&registrytest.Fault{Status: 405}, []string{"POST uploads Method Not Allowed", "POST uploads Accepted", "PUT uploads Created"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			b := image(t).Blobs[1]
			if tc.fault != nil {
				f := *tc.fault
				f.Method, f.Query = "POST", "mount="
				r.Fault(f)
			}
			got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, nil))
			noError(t, err)
			if got != registry.Uploaded || !r.HasBlob("d/x", b.Digest) {
				t.Errorf("%s", got)
			}
			wantLog(t, r, tc.want...)
		})
	}
}

func TestSourceThatIsDeniedIsNotAskedForAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Fault(registrytest.Fault{Method: "POST", Query: "mount=", Status: 403})
	repo := repo(t, r.Host, "d/x", registry.Options{})
	for _, b := range image(t).Blobs {
		_, err := repo.CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, nil))
		noError(t, err)
	}
	if n := r.Count(registrytest.Filter{Query: "mount="}); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestLostAnswerToACommitIsSettledByHead(t *testing.T) {
	r := registrytest.Distribution(t)
	b, opened := image(t).Blobs[1], 0
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.LoseAnswer})
	got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
	noError(t, err)
	if got != registry.Uploaded || opened != 1 {
		t.Errorf("%s, opened %d times", got, opened)
	}
	if log := r.Log(); len(log) != 3 || log[2].Method != "HEAD" || log[2].Status != 200 {
		t.Errorf("want POST, PUT, HEAD:\n%s", r.Transcript())
	}
}

func TestBrokenUploadIsTakenUpWhereItStopped(t *testing.T) {
	r := registrytest.Distribution(t)
	b, opened := big(t, 3<<20), 0
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutRequest, After: 1 << 20})
	got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
	noError(t, err)
	if got != registry.Uploaded || opened != 2 || !r.HasBlob("d/x", b.Digest) {
		t.Errorf("%s, opened %d times", got, opened)
	}
	puts := r.Find(registrytest.Filter{Method: "PUT"})
	if last := puts[len(puts)-1]; last.Sent >= b.Size {
		t.Errorf("the last PUT sent %d of %d bytes again\n%s", last.Sent, b.Size, r.Transcript())
	}
}

func TestBrokenUploadEndsWellOnEveryRegistry(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b, opened := big(t, 1<<20), 0
		r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutRequest, After: 1 << 19, Times: 2})
		got, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
		if err != nil {
			t.Fatalf("%v\n%s", err, r.Transcript())
		}
		if got != registry.Uploaded || !r.HasBlob("d/x", b.Digest) {
			t.Errorf("%s, opened %d times", got, opened)
		}
	})
}

func TestLostSessionIsReplacedAFewTimes(t *testing.T) {
	unknown := registrytest.Fault{Method: "PUT", Status: 404, Body: `{"errors":[{"code":"BLOB_UPLOAD_UNKNOWN","message":"blob upload unknown to registry"}]}`}
	t.Run("twice", func(t *testing.T) {
		r := registrytest.Distribution(t)
		f := unknown
		f.Times = 2
		r.Fault(f)
		b, opened := image(t).Blobs[1], 0
		_, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
		noError(t, err)
		if opened != 3 {
			t.Errorf("opened %d times, want anew for each of 3 attempts", opened)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		r := registrytest.Distribution(t)
		f := unknown
		f.Times = registrytest.Always
		rule := r.Fault(f)
		b := image(t).Blobs[1]
		_, err := repo(t, r.Host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
		if !errors.Is(err, registry.ErrSessionLost) || registry.Absent(err) {
			t.Errorf("got %v", err)
		}
		if rule.Hits() != 4 {
			t.Errorf("%d attempts, want 4", rule.Hits())
		}
	})
}

func TestRepositoryThatCannotBeCreatedIsNotALostSession(t *testing.T) {
	r := registrytest.Distribution(t)
	rule := r.Fault(registrytest.Fault{Method: "POST", Status: 404, Times: registrytest.Always,
		Body: `{"errors":[{"code":"NAME_UNKNOWN","message":"repository does not exist"}]}`})
	b := image(t).Blobs[1]
	_, err := repo(t, r.Host, "d/new", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	if e := asError(t, err); !e.Has("NAME_UNKNOWN") || rule.Hits() != 2 {
		t.Errorf("got %v after %d POSTs", err, rule.Hits())
	}
}

func TestRegistryThatWantsPatchIsRememberedPerHost(t *testing.T) {
	r := registrytest.Distribution(t)
	onlyPatch := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.Method == "PUT" && strings.Contains(req.URL.Path, "/uploads/") && req.ContentLength > 0 {
				w.WriteHeader(http.StatusMethodNotAllowed)
				return
			}
			next.ServeHTTP(w, req)
		})
	}
	r.Use(onlyPatch)
	repo := repo(t, r.Host, "d/x", registry.Options{})
	for _, b := range image(t).Blobs {
		_, err := repo.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
		noError(t, err)
		if !r.HasBlob("d/x", b.Digest) {
			t.Error("not there")
		}
	}
	if n := r.Count(registrytest.Filter{Method: "PUT", Status: 405}); n != 1 {
		t.Errorf("PUT with a body tried %d times, want 1\n%s", n, r.Transcript())
	}
}

func TestCopyWithinAHostDoesNotStarveItself(t *testing.T) {
	r := registrytest.Distribution(t)
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Layers: 8})
	r.Push("s/img", "1", img)
	c := registry.NewClient(registry.Options{MaxConcurrent: 2, Sleep: (&naps{}).sleep})
	src, dst := on(t, c, r.Host, "s/img"), on(t, c, r.Host, "d/x")
	var wg sync.WaitGroup
	for _, b := range img.Blobs {
		wg.Go(func() {
			_, err := dst.CopyBlob(t.Context(), b.Descriptor, []string{"no/where"}, func(ctx context.Context) (io.ReadCloser, error) {
				return src.OpenBlob(ctx, b.Descriptor)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, b := range img.Blobs {
		if !r.HasBlob("d/x", b.Digest) {
			t.Errorf("%s is missing", b.Digest)
		}
	}
}

func TestLargeBlobIsLookedForWhereMountsDoNotTell(t *testing.T) {
	r := registrytest.Distribution(t)
	noMounts := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			req.URL.RawQuery = strings.ReplaceAll(req.URL.RawQuery, "mount=", "ignored=")
			next.ServeHTTP(w, req)
		})
	}
	r.Use(noMounts)
	large, small := big(t, 17<<20), image(t).Blobs[1]
	r.PushBlob("d/x", large)
	r.PushBlob("d/x", small)
	repo := repo(t, r.Host, "d/x", registry.Options{})
	for _, b := range []oci.Blob{large, small} {
		got, err := repo.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
		noError(t, err)
		if got != registry.Present {
			t.Errorf("%s", got)
		}
	}
	wantLog(t, r, "POST uploads Accepted", "HEAD blobs OK", "DELETE uploads No Content", "HEAD blobs OK")
}

func TestUploadLocationOnAnotherHostGetsNoLogin(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
	other := registrytest.Elsewhere(t, r)
	r.Use(registrytest.Rewriting("POST", "uploads", func(a *registrytest.Answer) {
		a.Header.Set("Location", "http://"+other.Host+a.Header.Get("Location")[strings.Index(a.Header.Get("Location"), "/v2/"):])
	}))
	b := image(t).Blobs[1]
	_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
	if d := cmp.Diff([]string{"PUT "}, []string{other.Log()[0].Method + " " + other.Log()[0].Auth}); d != "" {
		t.Error(d)
	}
}

func TestMissingLocationIsAnError(t *testing.T) {
	host := scripted(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusAccepted) })
	b := image(t).Blobs[1]
	_, err := repo(t, host, "d/x", registry.Options{}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	if e := asError(t, err); e.Op != "write blob" {
		t.Errorf("got %v", err)
	}
}

func TestBlobIsReadAndVerified(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 1<<20)
		r.PushBlob("d/x", b)
		got, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{}), b.Descriptor)
		noError(t, err)
		if !bytes.Equal(got, b.Bytes) {
			t.Error("other bytes")
		}
		wantLog(t, r, "GET blobs OK")
	})
}

func readBlob(t *testing.T, repo *registry.Repository, d oci.Descriptor) ([]byte, error) {
	t.Helper()
	rc, err := repo.OpenBlob(t.Context(), d)
	if err != nil {
		return nil, err
	}
	defer rc.Close()
	return io.ReadAll(rc)
}

func TestBrokenDownloadIsTakenUpWhereItStopped(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 3<<20)
	r.PushBlob("d/x", b)
	r.Fault(registrytest.Fault{Method: "GET", Cut: registrytest.CutAnswer, After: 1 << 20, Times: 2})
	got, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{}), b.Descriptor)
	noError(t, err)
	if !bytes.Equal(got, b.Bytes) {
		t.Error("other bytes")
	}
	log := r.Log()
	if len(log) != 3 || log[1].Range == "" || log[2].Status != http.StatusPartialContent {
		t.Errorf("want three GETs, two with a range:\n%s", r.Transcript())
	}
	if total := log[0].Received + log[1].Received + log[2].Received; total > b.Size+1<<16 {
		t.Errorf("received %d bytes of %d", total, b.Size)
	}
}

func TestServerThatIgnoresRangesIsReadFromTheStart(t *testing.T) {
	b := big(t, 1<<20)
	n := 0
	host := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(b.Size))
		if n++; n == 1 {
			_, _ = w.Write(b.Bytes[:1000])
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(b.Bytes)
	})
	got, err := readBlob(t, repo(t, host, "d/x", registry.Options{}), b.Descriptor)
	noError(t, err)
	if !bytes.Equal(got, b.Bytes) || n != 2 {
		t.Errorf("%d bytes in %d requests", len(got), n)
	}
}

func TestDownloadThatKeepsBreakingIsGivenUp(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 1<<20)
	r.PushBlob("d/x", b)
	rule := r.Fault(registrytest.Fault{Method: "GET", Cut: registrytest.CutAnswer, Times: registrytest.Always, After: 10})
	_, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{}), b.Descriptor)
	if e := asError(t, err); e.Op != "read blob" {
		t.Errorf("got %v", err)
	}
	if rule.Hits() != 6 {
		t.Errorf("%d requests, want 6", rule.Hits())
	}
}

func TestOtherBytesAreAnErrorInsteadOfTheEnd(t *testing.T) {
	for name, rewrite := range map[string]registrytest.Rewrite{
		"one byte changed": registrytest.CorruptByte(100),
		"shorter":          registrytest.Truncate(10),
		"HTML":             registrytest.Reply(200, "<html></html>"),
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t)
			b := image(t).Blobs[1]
			r.PushBlob("d/x", b)
			r.Fault(registrytest.Fault{Method: "GET", Rewrite: rewrite})
			_, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{}), b.Descriptor)
			var mismatch *oci.MismatchError
			if !errors.As(err, &mismatch) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestRedirectedDownloadCarriesNoLogin(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
	other := registrytest.Elsewhere(t, r)
	r.Use(registrytest.RedirectTo("http", other.Host, "/blobs/"))
	b := image(t).Blobs[1]
	r.PushBlob("d/x", b)
	_, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}), b.Descriptor)
	noError(t, err)
	if log := other.Log(); len(log) != 1 || log[0].Auth != "" {
		t.Errorf("the other host got %+v", log)
	}
}

func TestStatBlob(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := image(t)
		r.PushBlob("d/x", img.Blobs[0])
		repo := repo(t, r.Host, "d/x", registry.Options{})
		for i, want := range []bool{true, false} {
			got, err := repo.StatBlob(t.Context(), img.Blobs[i].Descriptor)
			if err != nil || got != want {
				t.Errorf("blob %d: %v, %v", i, got, err)
			}
		}
	})
}

func TestStatBlobTellsAProxysPageFromAnAbsentBlob(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Fault(registrytest.Fault{Times: registrytest.Always, Status: 404, Header: http.Header{"Content-Type": {"text/html"}}, Body: "<html></html>"})
	if there, err := repo(t, r.Host, "d/x", registry.Options{}).StatBlob(t.Context(), image(t).Blobs[0].Descriptor); err == nil {
		t.Errorf("%v, no error", there)
	}
}
