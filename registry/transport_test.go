package registry_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/registry"
)

func TestLoopbackIsSpokenToAsItSpeaks(t *testing.T) {
	for name, tls := range map[string]bool{"plain HTTP": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var opts []registrytest.Option
			if tls {
				opts = append(opts, registrytest.TLS())
			}
			r := registrytest.Distribution(t, opts...)
			r.Push("d/x", "1", image(t))
			c := registry.NewClient(registry.Options{Insecure: []string{r.Host}})
			for range 2 {
				_, err := on(t, c, r.Host, "d/x").Manifest(t.Context(), "1")
				noError(t, err)
			}
			if n := c.Stats().Requests()[r.Host]; tls && n != 3 || !tls && n != 2 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestCertificateIsVerified(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TLS())
	_, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
	if err == nil || !strings.Contains(err.Error(), "certificate") || registry.Absent(err) {
		t.Errorf("got %v", err)
	}
}

func TestGivenTransportIsUsed(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TLS())
	r.Push("d/x", "1", image(t))
	_, err := repo(t, r.Host, "d/x", registry.Options{Transport: r.Client().Transport}).Manifest(t.Context(), "1")
	noError(t, err)
}

func TestOtherHostsAreNeverSpokenToInPlainHTTP(t *testing.T) {
	var schemes []string
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		schemes = append(schemes, req.URL.Scheme+" "+req.URL.Host)
		return nil, &net.OpError{Op: "remote error", Err: errors.New("http: server gave HTTP response to HTTPS client")}
	})
	o := registry.Options{Transport: transport, PlainHTTP: []string{"listed.example:5000"}}
	for _, host := range []string{"reg.example", "reg.example:80", "10.1.2.3:5000", "listed.example:5000", "docker.io"} {
		if _, err := repo(t, host, "d/x", o).Manifest(t.Context(), "1"); err == nil {
			t.Error("no error")
		}
	}
	want := []string{"https reg.example", "https reg.example:80", "https 10.1.2.3:5000", "http listed.example:5000", "https registry-1.docker.io"}
	if d := cmp.Diff(want, schemes); d != "" {
		t.Error(d)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestRedirectOutOfTLSIsRefused(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Use(registrytest.RedirectTo("http", "store.example", "/blobs/"))
	b := image(t).Blobs[1]
	r.PushBlob("d/x", b)
	_, err := readBlob(t, repo(t, r.Host, "d/x", registry.Options{}), b.Descriptor)
	var refused *registry.PlainHTTPError
	if !errors.As(err, &refused) || refused.Host != "store.example" {
		t.Errorf("got %v", err)
	}
}

func TestIPv6HostIsReached(t *testing.T) {
	l, err := net.Listen("tcp", "[::1]:0")
	if err != nil {
		t.Skip("no IPv6 loopback")
	}
	_ = l.Close()
	var got string
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		got = req.URL.String()
		return nil, errors.New("enough")
	})
	_, _ = repo(t, "[::1]:5000", "s/img", registry.Options{Transport: transport}).Manifest(t.Context(), "1")
	if got != "http://[::1]:5000/v2/s/img/manifests/1" {
		t.Errorf("asked %s", got)
	}
}

func TestEveryoneWaitsWhenTheHostSaysSo(t *testing.T) {
	r := registrytest.Distribution(t)
	img := image(t)
	for _, b := range img.Blobs {
		r.PushBlob("d/x", b)
	}
	r.Fault(registrytest.Fault{Method: "PUT", Times: 2, Status: 429, Header: http.Header{"Retry-After": {"2"}},
		Body: `{"errors":[{"code":"TOOMANYREQUESTS"}]}`})
	var n naps
	noError(t, repo(t, r.Host, "d/x", registry.Options{Sleep: n.sleep}).PutTag(t.Context(), "1", img.Root))
	if d := cmp.Diff([]time.Duration{2 * time.Second, 2 * time.Second}, n.list()); d != "" {
		t.Error(d)
	}
	if c := r.Count(registrytest.Filter{Method: "PUT", Status: 201}); c != 1 {
		t.Errorf("%d PUTs were carried out", c)
	}
}

func TestDayLongWaitStopsAtOnceWithTheTime(t *testing.T) {
	r := registrytest.Distribution(t)
	r.Fault(registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"86400"}}})
	_, err := repo(t, r.Host, "d/x", registry.Options{}).Manifest(t.Context(), "1")
	var wait *registry.WaitError
	if !errors.As(err, &wait) || wait.Wait != 24*time.Hour || wait.Host != r.Host || registry.Absent(err) {
		t.Errorf("got %v", err)
	}
}

func TestTranscriptHasEveryRequestOnce(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
	r.Push("d/x", "1", image(t))
	var got []string
	o := registry.Options{Credentials: login("u", "p"), OnRequest: func(q registry.Request) {
		got = append(got, q.Method+" "+q.Kind+" "+q.Auth+" "+http.StatusText(q.Status))
	}}
	_, err := repo(t, r.Host, "d/x", o).Manifest(t.Context(), "1")
	noError(t, err)
	if d := cmp.Diff([]string{"GET manifests  Unauthorized", "GET manifests Basic OK"}, got); d != "" {
		t.Error(d)
	}
}

func TestNeitherLogNorErrorsHaveSecrets(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TokenAuth(registrytest.TokenOptions{Username: "u", Password: "hunter2"}))
	var buf bytes.Buffer
	o := registry.Options{
		Credentials: login("u", "hunter2"),
		Log:         slog.New(slog.NewTextHandler(&buf, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	b := image(t).Blobs[1]
	repo := repo(t, r.Host, "d/x", o)
	_, err := repo.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
	r.ExpireTokens()
	r.TokenFault(registrytest.Fault{Status: 500, Times: registrytest.Always})
	r.Fault(registrytest.Fault{Method: "PUT", Optional: true, Cut: registrytest.CutBefore, Times: registrytest.Always})
	c := image(t).Blobs[0]
	_, err = repo.CopyBlob(t.Context(), c.Descriptor, nil, opener(c.Bytes, nil))
	if err == nil {
		t.Fatal("no error")
	}
	for what, text := range map[string]string{"log": buf.String(), "error": err.Error()} {
		for _, secret := range []string{"hunter2", "token-1", "_state=e", "Bearer ", "aHVudGVyMg"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q:\n%s", what, secret, text)
			}
		}
	}
	if !strings.Contains(buf.String(), "method=PUT") {
		t.Errorf("nothing was logged: %s", buf.String())
	}
}

func TestRequestsSayWhoAsks(t *testing.T) {
	var agents []string
	host := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		agents = append(agents, r.UserAgent()+" "+r.Header.Get("Accept-Encoding"))
		w.WriteHeader(http.StatusForbidden)
	})
	_, _ = repo(t, host, "d/x", registry.Options{UserAgent: "manifold/1"}).Manifest(t.Context(), "1")
	if d := cmp.Diff([]string{"manifold/1 identity"}, agents); d != "" {
		t.Error(d)
	}
}

func TestDockerHubAnswersElsewhereAndKeepsItsLogin(t *testing.T) {
	var asked string
	var urls []string
	transport := roundTripper(func(req *http.Request) (*http.Response, error) {
		urls = append(urls, req.URL.String())
		return &http.Response{
			StatusCode: 401, Header: http.Header{"Www-Authenticate": {`Basic realm="hub"`}}, Body: http.NoBody, Request: req,
		}, nil
	})
	_, err := repo(t, "docker.io", "library/busybox", registry.Options{Transport: transport, Credentials: func(_ context.Context, host string) (registry.Credential, error) {
		asked = host
		return registry.Credential{}, nil
	}}).Manifest(t.Context(), "1")
	if !registry.Denied(err) || asked != "docker.io" || !strings.HasPrefix(err.Error(), "docker.io/library/busybox:1: ") {
		t.Errorf("asked for %q: %v", asked, err)
	}
	if d := cmp.Diff([]string{"https://registry-1.docker.io/v2/library/busybox/manifests/1"}, urls); d != "" {
		t.Error(d)
	}
}

func TestStatsCountRequestsAndBytesByHost(t *testing.T) {
	r := registrytest.Distribution(t)
	b := image(t).Blobs[1]
	c := registry.NewClient(registry.Options{})
	_, err := on(t, c, r.Host, "d/x").CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, nil))
	noError(t, err)
	_, err = readBlob(t, on(t, c, r.Host, "d/x"), b.Descriptor)
	noError(t, err)
	sent, received := c.Stats().Bytes()
	if c.Stats().Requests()[r.Host] != 3 || sent[r.Host] != b.Size || received[r.Host] != b.Size {
		t.Errorf("%v, sent %v, received %v; want 3 requests and %d bytes each way", c.Stats().Requests(), sent, received, b.Size)
	}
}
