package registrytest_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

// withImage is a registry that holds an image, and the path of its manifest.
func withImage(t *testing.T, opts ...registrytest.Option) (r *registrytest.Registry, img registrytest.Content, path string) {
	t.Helper()
	r = registrytest.Distribution(t, opts...)
	img = registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Style: registrytest.Style{Indent: "  "}})
	r.Push("app", "1", img)
	return r, img, "/v2/app/manifests/1"
}

func TestStatusFaultHappensTheGivenTimesAfterSkipping(t *testing.T) {
	r, _, path := withImage(t)
	rule := r.Fault(registrytest.Fault{
		Method: "GET", Path: `/manifests/`, Skip: 1, Times: 2,
		Status: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"7"}}, Body: "slow down",
	})
	var got []int
	for range 4 {
		got = append(got, send(t, r, "GET", path, "").status)
	}
	if diff := cmp.Diff([]int{200, 429, 429, 200}, got); diff != "" {
		t.Error(diff)
	}
	if rule.Hits() != 2 || r.Count(registrytest.Filter{Status: 429}) != 2 {
		t.Errorf("hits %d, log:\n%s", rule.Hits(), r.Transcript())
	}
	r.Reset()
	if len(r.Log()) != 0 {
		t.Error("Reset kept the log")
	}
}

func TestStatusFaultCarriesHeadersAndBodyAndReadsTheRequest(t *testing.T) {
	r, _, _ := withImage(t)
	r.Fault(registrytest.Fault{Method: "PUT", Status: 403, Header: http.Header{"Retry-After": {"7"}}, Body: "no"})
	body := strings.Repeat("x", 1<<20)
	got := send(t, r, "PUT", "/v2/app/manifests/2", body).want(t, 403)
	if got.header.Get("Retry-After") != "7" || got.body != "no" {
		t.Errorf("answer = %+v", got)
	}
	if q := r.Log()[0]; q.Sent != 1<<20 || q.BodyDigest != digest.FromString(body) {
		t.Errorf("logged %d bytes, %s", q.Sent, q.BodyDigest)
	}
}

// A fault that never happens means that the test does not test what it says.
func TestFaultThatDidNotHappenFailsTheTest(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault registrytest.Fault
		fails bool
	}{
		{"unused", registrytest.Fault{Path: `/never/`, Status: 500}, true},
		{"used once of twice", registrytest.Fault{Times: 2, Status: 500}, true},
		{"always, unused", registrytest.Fault{Path: `/never/`, Times: registrytest.Always, Status: 500}, true},
		{"always, used", registrytest.Fault{Times: registrytest.Always, Status: 500}, false},
		{"used", registrytest.Fault{Status: 500}, false},
		{"optional", registrytest.Fault{Path: `/never/`, Optional: true, Status: 500}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			tb := &failing{TB: t}
			r := registrytest.WithReferrers(tb)
			r.Fault(c.fault)
			send(t, r, "GET", "/v2/", "").want2(t)
			tb.end()
			if tb.failed != c.fails {
				t.Errorf("failed = %v, want %v", tb.failed, c.fails)
			}
		})
	}
}

func (a reply) want2(t *testing.T) {
	t.Helper()
	if a.err != nil {
		t.Fatal(a.err)
	}
}

// failing is a test whose failure is looked at instead of reported.
type failing struct {
	testing.TB
	cleanups []func()
	failed   bool
}

func (f *failing) Cleanup(fn func())     { f.cleanups = append(f.cleanups, fn) }
func (f *failing) Errorf(string, ...any) { f.failed = true }

func (f *failing) end() {
	for i := len(f.cleanups) - 1; i >= 0; i-- {
		f.cleanups[i]()
	}
}

func TestCutBeforeKeepsTheRequestFromTheRegistry(t *testing.T) {
	r, img, _ := withImage(t)
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutBefore})
	got := send(t, r, "PUT", "/v2/app/manifests/2", string(img.Root.Bytes), "Content-Type", img.Root.MediaType)
	if got.err == nil {
		t.Fatalf("answered %d", got.status)
	}
	if tags := r.Tags("app"); tags["2"] != "" {
		t.Errorf("tags = %v", tags)
	}
	if q := r.Log()[0]; q.Status != 0 {
		t.Errorf("status %d is in the log", q.Status)
	}
}

func TestLostAnswerLeavesTheWorkDone(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
		r.Push("app", "1", img)
		r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.LoseAnswer})
		got := send(t, r, "PUT", "/v2/app/manifests/2", string(img.Root.Bytes), "Content-Type", img.Root.MediaType)
		if got.err == nil {
			t.Fatalf("answered %d", got.status)
		}
		if tags := r.Tags("app"); tags["2"] != img.Digest() {
			t.Errorf("tags = %v", tags)
		}
	})
}

func TestCutRequestLeavesThoseBytesWithTheRegistry(t *testing.T) {
	r := registrytest.Distribution(t)
	const kept = 300_000
	r.Fault(registrytest.Fault{Method: "PATCH", Cut: registrytest.CutRequest, After: kept})
	session := pathOf(t, send(t, r, "POST", "/v2/app/blobs/uploads/", "").want(t, http.StatusAccepted))
	body := strings.Repeat("x", 1<<20)
	if got := send(t, r, "PATCH", session, body, "Content-Type", "application/octet-stream"); got.err == nil {
		t.Fatalf("answered %d", got.status)
	}
	status := send(t, r, "GET", session, "").want(t, http.StatusNoContent)
	if got, want := status.header.Get("Range"), "0-"+strconv.Itoa(kept-1); got != want {
		t.Fatalf("Range = %q, want %q", got, want)
	}
	status = send(t, r, "PATCH", pathOf(t, status), body[kept:], "Content-Range", strconv.Itoa(kept)+"-"+strconv.Itoa(len(body)-1)).want(t, http.StatusAccepted)
	send(t, r, "PUT", pathOf(t, status)+"&digest="+digest.FromString(body).String(), "").want(t, http.StatusCreated)
	if !r.HasBlob("app", digest.FromString(body)) {
		t.Error("the resumed blob is absent")
	}
}

func pathOf(t *testing.T, a reply) string {
	t.Helper()
	u, err := url.Parse(a.header.Get("Location"))
	if err != nil || u.Path == "" {
		t.Fatalf("Location = %q, %v", a.header.Get("Location"), err)
	}
	return u.RequestURI()
}

func TestCutAnswerSendsThatManyBytes(t *testing.T) {
	r, img, path := withImage(t)
	r.Fault(registrytest.Fault{Method: "GET", Cut: registrytest.CutAnswer, After: 10})
	got := send(t, r, "GET", path, "")
	if !errors.Is(got.err, io.ErrUnexpectedEOF) || got.body != string(img.Root.Bytes[:10]) {
		t.Errorf("body %q, error %v", got.body, got.err)
	}
	if got.header.Get("Content-Length") != strconv.FormatInt(img.Root.Size, 10) {
		t.Errorf("Content-Length = %s", got.header.Get("Content-Length"))
	}
}

func TestHoldLastsUntilReleased(t *testing.T) {
	r, _, path := withImage(t)
	release := make(chan struct{})
	rule := r.Fault(registrytest.Fault{Method: "GET", Hold: release})
	answered := make(chan int)
	go func() { answered <- send(t, r, "GET", path, "").status }()
	<-rule.Reached()
	send(t, r, "HEAD", path, "").want(t, http.StatusOK) // others pass
	select {
	case status := <-answered:
		t.Errorf("answered %d while held", status)
	default:
	}
	close(release)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("answered %d", status)
	}
}

func TestRewritesChangeTheAnswer(t *testing.T) {
	r, img, path := withImage(t)
	digestHeader := "Docker-Content-Digest"
	get := func(rewrite registrytest.Rewrite) reply {
		t.Helper()
		r.Fault(registrytest.Fault{Method: "GET", Rewrite: rewrite})
		return send(t, r, "GET", path, "")
	}
	if got := get(registrytest.StripHeader(digestHeader)).want(t, 200); got.header.Get(digestHeader) != "" {
		t.Error("header is still there")
	}
	if got := get(registrytest.SetHeader(digestHeader, "wrong")).want(t, 200); got.header.Get(digestHeader) != "wrong" {
		t.Errorf("header = %s", got.header.Get(digestHeader))
	}
	want := bytes.Clone(img.Root.Bytes)
	want[5] ^= 1
	if got := get(registrytest.CorruptByte(5)).want(t, 200); got.body != string(want) {
		t.Errorf("body = %q", got.body)
	}
	if got := get(registrytest.Truncate(7)).want(t, 200); got.body != string(img.Root.Bytes[:7]) {
		t.Errorf("body = %q", got.body)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, img.Root.Bytes); err != nil {
		t.Fatal(err)
	}
	if got := get(registrytest.Reserialize(registrytest.Style{})).want(t, 200); got.body != compact.String() {
		t.Errorf("body = %q", got.body)
	}
	if got := get(registrytest.Reply(500, "<html>")).want(t, 500); got.body != "<html>" {
		t.Errorf("body = %q", got.body)
	}
	got := get(registrytest.Gzip()).want(t, 200)
	if got.header.Get("Content-Encoding") == "gzip" { // net/http undoes it when it asked for it
		z, err := gzip.NewReader(strings.NewReader(got.body))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		got.body = string(b)
	}
	if got.body != string(img.Root.Bytes) {
		t.Errorf("body = %q", got.body)
	}
}

func TestHeadAnswersKeepTheirLength(t *testing.T) {
	r, img, path := withImage(t)
	r.Use(registrytest.Rewriting("", `/manifests/`, registrytest.StripHeader("Docker-Content-Digest")))
	got := send(t, r, "HEAD", path, "").want(t, 200)
	if got.header.Get("Content-Length") != strconv.FormatInt(img.Root.Size, 10) || got.header.Get("Docker-Content-Digest") != "" {
		t.Errorf("header = %v", got.header)
	}
}

func TestEditChangesTheRequest(t *testing.T) {
	r, _, _ := withImage(t)
	r.Fault(registrytest.Fault{Method: "GET", Edit: func(q *http.Request) { q.URL.Path = "/v2/app/manifests/2" }})
	send(t, r, "GET", "/v2/app/manifests/1", "").want(t, http.StatusNotFound)
	if q := r.Log()[0]; q.Path != "/v2/app/manifests/1" {
		t.Errorf("logged %s, want what the client sent", q)
	}
}

func TestImmutableTagsTakeTheSameBytesOnly(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		one := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Text: "1"})
		two := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Text: "2"})
		r.Push("app", "", one)
		r.Push("app", "", two)
		r.Use(registrytest.ImmutableTags())
		put := func(ref string, c registrytest.Content) reply {
			return send(t, r, "PUT", "/v2/app/manifests/"+ref, string(c.Root.Bytes), "Content-Type", c.Root.MediaType)
		}
		put("1", one).want(t, http.StatusCreated)
		put("1", one).want(t, http.StatusCreated)
		if got := put("1", two).want(t, http.StatusBadRequest); !strings.Contains(got.body, "TAG_INVALID") {
			t.Errorf("body = %s", got.body)
		}
		put(two.Digest().String(), two).want(t, http.StatusCreated)
		put("2", two).want(t, http.StatusCreated)
	})
}

func TestLagHidesWhatWasJustPut(t *testing.T) {
	r, img, _ := withImage(t)
	r.Use(registrytest.Lag(2))
	send(t, r, "PUT", "/v2/app/manifests/2", string(img.Root.Bytes), "Content-Type", img.Root.MediaType).want(t, http.StatusCreated)
	var got []int
	for _, ref := range []string{"2", "2", "2", img.Digest().String(), img.Digest().String(), img.Digest().String(), "1"} {
		got = append(got, send(t, r, "HEAD", "/v2/app/manifests/"+ref, "").status)
	}
	if diff := cmp.Diff([]int{404, 404, 200, 404, 404, 200, 200}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHiddenMethodsAreNotAllowed(t *testing.T) {
	r, _, path := withImage(t)
	r.Use(registrytest.Hide("HEAD", `/manifests/`))
	send(t, r, "HEAD", path, "").want(t, http.StatusMethodNotAllowed)
	send(t, r, "GET", path, "").want(t, http.StatusOK)
}

// The witness is Distribution itself: it answers an index only to those who
// accept one.
func TestOneHeaderLineDropsTheOthers(t *testing.T) {
	r, img, path := withImage(t)
	headers := []string{"Accept", "application/json", "Accept", img.Root.MediaType}
	send(t, r, "GET", path, "", headers...).want(t, http.StatusOK)
	r.Use(registrytest.OneHeaderLine())
	send(t, r, "GET", path, "", headers...).want(t, http.StatusNotFound)
	if diff := cmp.Diff([]string{"application/json", img.Root.MediaType}, r.Log()[1].Accept); diff != "" {
		t.Errorf("the log does not say what the client sent: %s", diff)
	}
}

func TestRedirectedBlobsComeFromTheOtherHost(t *testing.T) {
	r, img, _ := withImage(t)
	other := registrytest.Elsewhere(t, r)
	r.Use(registrytest.RedirectTo("http", other.Host, `/blobs/sha256:`))
	path := "/v2/app/blobs/" + img.Blobs[0].Digest.String()
	got := send(t, r, "GET", path, "").want(t, http.StatusTemporaryRedirect)
	resp, err := http.Get(got.header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || !bytes.Equal(b, img.Blobs[0].Bytes) {
		t.Errorf("blob = %q, %v", b, err)
	}
	if other.Count(registrytest.Filter{Method: "GET", Path: path}) != 1 {
		t.Errorf("the other host was asked %v", other.Log())
	}
}

func TestLocationsNameTheProxy(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		got := send(t, r, "POST", "/v2/app/blobs/uploads/", "").want(t, http.StatusAccepted)
		u, err := url.Parse(got.header.Get("Location"))
		if err != nil || u.Host != "" && u.Host != r.Host {
			t.Errorf("Location = %s, %v, want %s", u, err, r.Host)
		}
	})
}

func TestTLSIsSpokenWithACertificateOfItsOwn(t *testing.T) {
	r, _, path := withImage(t, registrytest.TLS())
	if !strings.HasPrefix(r.URL(), "https://") || len(r.CA()) == 0 {
		t.Fatalf("URL %s", r.URL())
	}
	send(t, r, "GET", path, "").want(t, http.StatusOK)
	got := send(t, r, "POST", "/v2/app/blobs/uploads/", "").want(t, http.StatusAccepted)
	if !strings.HasPrefix(got.header.Get("Location"), "https://"+r.Host) {
		t.Errorf("Location = %s", got.header.Get("Location"))
	}
}
