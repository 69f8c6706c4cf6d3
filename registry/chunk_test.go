package registry_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
)

func TestLargeBlobsGoInPiecesWhenAskedFor(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b, opened := big(t, 1<<20), 0
		c := repo(t, r.Host, "d/x", registry.Options{ChunkSize: 256 << 10})
		got, err := c.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
		noError(t, err)
		if got != registry.Uploaded || !r.HasBlob("d/x", b.Digest) {
			t.Errorf("%s\n%s", got, r.Transcript())
		}
		if opened != 1 {
			t.Errorf("the source was opened %d times", opened)
		}
		patches, puts := r.Find(registrytest.Filter{Method: "PATCH"}), r.Find(registrytest.Filter{Method: "PUT"})
		if len(patches) != 4 || patches[0].Sent != 256<<10 || len(puts) != 1 || puts[0].Sent != b.Size-4*(256<<10) || puts[0].Sent == 0 {
			t.Errorf("requests:\n%s", r.Transcript())
		}
	})
}

func TestSmallBlobsStayWhole(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 1<<10)
	_, err := repo(t, r.Host, "d/x", registry.Options{ChunkSize: b.Size}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
	wantLog(t, r, "POST uploads Accepted", "PUT uploads Created")
}

func TestBrokenPieceIsAllThatIsSentAgain(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 2<<20)
		r.Fault(registrytest.Fault{Method: "PATCH", Skip: 2, Cut: registrytest.CutRequest, After: 100 << 10})
		r.Fault(registrytest.Fault{Method: "PATCH", Skip: 1, Cut: registrytest.CutBefore})
		_, err := repo(t, r.Host, "d/x", registry.Options{ChunkSize: 256 << 10}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
		noError(t, err)
		if !r.HasBlob("d/x", b.Digest) {
			t.Error("the blob is not there")
		}
		var sent int64
		for _, q := range r.Log() {
			if q.Method == "PATCH" || q.Method == "PUT" {
				sent += q.Sent
			}
		}
		if r.Features.Resumes && sent > b.Size+2*(256<<10) {
			t.Errorf("%d bytes were sent of %d\n%s", sent, b.Size, r.Transcript())
		}
	})
}

// TestMoreFaultsThanSessionsAreSurvivedWhileItGoesOn: a slow line that breaks
// off often brings a blob over in the end.
func TestMoreFaultsThanSessionsAreSurvivedWhileItGoesOn(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 2<<20)
	r.Fault(registrytest.Fault{Method: "PATCH", Times: 6, Cut: registrytest.CutRequest, After: 200 << 10})
	_, err := repo(t, r.Host, "d/x", registry.Options{ChunkSize: 256 << 10}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
}

func TestHostThatTakesNoPiecesIsRememberedAndGetsItWhole(t *testing.T) {
	for _, status := range []int{400, 404, 405, 411, 413, 416, 501} {
		r := registrytest.Distribution(t)
		r.Fault(registrytest.Fault{Method: "PATCH", Status: status})
		c := registry.NewClient(registry.Options{ChunkSize: 256 << 10, Sleep: (&naps{}).sleep})
		for _, n := range []int{1 << 20, 1<<20 + 1} {
			b := big(t, n)
			_, err := on(t, c, r.Host, "d/x").CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
			noError(t, err)
			if !r.HasBlob("d/x", b.Digest) {
				t.Errorf("%d: not there\n%s", status, r.Transcript())
			}
		}
		if n := r.Count(registrytest.Filter{Method: "PATCH"}); n != 1 {
			t.Errorf("%d: %d PATCHes", status, n)
		}
	}
}

func TestSessionMaySayHowSmallAPieceMayBe(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Use(registrytest.Rewriting("POST", "", registrytest.SetHeader("OCI-Chunk-Min-Length", "524288")))
	b := big(t, 1<<20)
	_, err := repo(t, r.Host, "d/x", registry.Options{ChunkSize: 1000}).CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
	if n := r.Count(registrytest.Filter{Method: "PATCH"}); n != 2 {
		t.Errorf("%d PATCHes\n%s", n, r.Transcript())
	}
}

// TestHostsGetThePiecesThatTheyTake: limits that cannot be asked for are known.
func TestHostsGetThePiecesThatTheyTake(t *testing.T) {
	b := big(t, 11<<20)
	for host, want := range map[string]struct {
		pieces  int
		largest int64
	}{
		"ghcr.io":                   {2, 4 << 20},
		"europe-docker.pkg.dev":     {0, 0},
		"eu.gcr.io":                 {0, 0},
		"1.dkr.ecr.x.amazonaws.com": {1, 8 << 20},
		"other.example":             {1, 8 << 20},
	} {
		r := registrytest.Distribution(t)
		transport := roundTripper(func(req *http.Request) (*http.Response, error) {
			there := req.Clone(req.Context())
			there.URL.Scheme, there.URL.Host = "http", r.Host
			resp, err := http.DefaultTransport.RoundTrip(there)
			if err == nil {
				resp.Request = req
				resp.Header.Set("Location", strings.ReplaceAll(resp.Header.Get("Location"), r.Host, host))
			}
			return resp, err
		})
		c := repo(t, host, "d/x", registry.Options{ChunkSize: 8 << 20, Transport: transport})
		_, err := c.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
		noError(t, err)
		patches := r.Find(registrytest.Filter{Method: "PATCH"})
		if len(patches) != want.pieces || want.pieces > 0 && patches[0].Sent != want.largest {
			t.Errorf("%s: requests\n%s", host, r.Transcript())
		}
	}
}

// zeros is a blob of any size that takes no room.
type zeros struct{ left int64 }

func (z *zeros) Read(p []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.left))
	clear(p[:n])
	z.left -= int64(n)
	return n, nil
}

// TestMemoryDoesNotGrowWithTheBlob: what is allocated for a blob is the same for
// 10 MB as for fifty times as much, whole and in pieces. (By hand it was the
// same for 5 GB.)
func TestMemoryDoesNotGrowWithTheBlob(t *testing.T) {
	host := scripted(t, func(w http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		switch q.Method {
		case http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		case http.MethodPut:
			w.WriteHeader(http.StatusCreated)
		default:
			w.Header().Set("Location", "/v2/d/x/blobs/uploads/1")
			w.WriteHeader(http.StatusAccepted)
		}
	})
	allocated := func(size, chunk int64) int64 {
		c := repo(t, host, "d/x", registry.Options{ChunkSize: chunk})
		d := oci.Descriptor{Digest: oci.NewBlob("", []byte("any")).Digest, Size: size}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := c.CopyBlob(t.Context(), d, nil, func(context.Context) (io.ReadCloser, error) {
			return io.NopCloser(&zeros{left: size}), nil
		})
		runtime.ReadMemStats(&after)
		noError(t, err)
		return int64(after.TotalAlloc - before.TotalAlloc)
	}
	for name, pieces := range map[string]int64{"whole": 0, "pieces": 10} {
		t.Run(name, func(t *testing.T) {
			chunk := func(size int64) int64 {
				if pieces == 0 {
					return 0
				}
				return size / pieces
			}
			allocated(10<<20, chunk(10<<20)) // pools are full then
			small, large := allocated(10<<20, chunk(10<<20)), allocated(500<<20, chunk(500<<20))
			if large > small+1<<20 {
				t.Errorf("%d bytes allocated for 10 MB, %d for 500 MB", small, large)
			}
		})
	}
}
