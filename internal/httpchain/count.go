package httpchain

import (
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/manifold-oci/manifold/internal/redact"
)

// Kinds that requests are counted under.
const (
	KindManifests = "manifests"
	KindBlobs     = "blobs"
	KindUploads   = "uploads"
	KindTags      = "tags"
	KindReferrers = "referrers"
	KindToken     = "token"
	KindOther     = "other"
)

// Count is what went over the wire to one host by one method for one kind.
type Count struct {
	Host, Method, Kind string
	Requests           int64
	// Sent and Received are bytes of bodies.
	Sent, Received int64
}

// Record is one attempt, for a transcript.
type Record struct {
	Method, Host string
	// URL is redacted.
	URL  string
	Kind string
	// Auth is the scheme of the Authorization header, "" when there was none.
	Auth string
	// Status is 0 when there was no answer; Err says why.
	Status int
	Err    error
	// Digest is the Docker-Content-Digest of the answer, "" when it has none.
	Digest string
}

// Counter sums up requests.
type Counter struct {
	mu     sync.Mutex
	counts map[countKey]*cell
}

type countKey struct{ host, method, kind string }

type cell struct{ requests, sent, received atomic.Int64 }

func (c *Counter) cell(k countKey) *cell {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[countKey]*cell{}
	}
	if c.counts[k] == nil {
		c.counts[k] = &cell{}
	}
	return c.counts[k]
}

// Counts returns what was counted so far, sorted by host, kind and method.
func (c *Counter) Counts() []Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Count, 0, len(c.counts))
	for k, v := range c.counts {
		out = append(out, Count{
			Host: k.host, Method: k.method, Kind: k.kind,
			Requests: v.requests.Load(), Sent: v.sent.Load(), Received: v.received.Load(),
		})
	}
	slices.SortFunc(out, func(a, b Count) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Method, b.Method))
	})
	return out
}

// counting counts every attempt and tells the hook of it.
type counting struct {
	next    http.RoundTripper
	counter *Counter
	hook    func(Record)
}

func (t *counting) RoundTrip(req *http.Request) (*http.Response, error) {
	kind := kindOf(req)
	c := t.counter.cell(countKey{host: req.URL.Host, method: req.Method, kind: kind})
	c.requests.Add(1)
	resp, err := t.next.RoundTrip(withBody(req, func(b io.ReadCloser) io.ReadCloser {
		return &counted{ReadCloser: b, n: &c.sent}
	}))
	t.tell(req, kind, resp, err)
	if err != nil {
		return nil, err
	}
	if !bodiless(req, resp) {
		resp.Body = &counted{ReadCloser: resp.Body, n: &c.received}
	}
	return resp, nil
}

func (t *counting) tell(req *http.Request, kind string, resp *http.Response, err error) {
	if t.hook == nil {
		return
	}
	scheme, _, _ := strings.Cut(req.Header.Get("Authorization"), " ")
	r := Record{Method: req.Method, Host: req.URL.Host, URL: redact.URL(req.URL), Kind: kind, Auth: scheme, Err: err}
	if resp != nil {
		r.Status, r.Digest = resp.StatusCode, resp.Header.Get("Docker-Content-Digest")
	}
	t.hook(r)
}

// withBody returns the request with its body wrapped; the request given is not
// touched.
func withBody(req *http.Request, wrap func(io.ReadCloser) io.ReadCloser) *http.Request {
	if req.Body == nil || req.Body == http.NoBody {
		return req
	}
	wrapped := req.WithContext(req.Context())
	wrapped.Body = wrap(req.Body)
	if get := req.GetBody; get != nil {
		wrapped.GetBody = func() (io.ReadCloser, error) {
			b, err := get()
			if err != nil {
				return nil, err
			}
			return wrap(b), nil
		}
	}
	return wrapped
}

type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (b *counted) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.n.Add(int64(n))
	return n, err
}

// kindOf reads the kind off the path.
func kindOf(req *http.Request) string {
	path, ok := strings.CutPrefix(req.URL.Path, "/v2/")
	switch {
	case ok && strings.Contains(path, "/manifests/"):
		return KindManifests
	case ok && strings.Contains(path, "/blobs/uploads/"):
		return KindUploads
	case ok && strings.Contains(path, "/blobs/"):
		return KindBlobs
	case ok && strings.HasSuffix(path, "/tags/list"):
		return KindTags
	case ok && strings.Contains(path, "/referrers/"):
		return KindReferrers
	case req.URL.Query().Has("scope"), req.URL.Query().Has("service"), isTokenForm(req):
		return KindToken
	}
	return KindOther
}

// isTokenForm recognises an OAuth2 token request, which is a form.
func isTokenForm(req *http.Request) bool {
	return req.Method == http.MethodPost && req.Header.Get("Content-Type") == "application/x-www-form-urlencoded"
}
