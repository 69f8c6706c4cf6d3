package registry_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/registry"
)

func secured(t *testing.T, o registrytest.TokenOptions) *registrytest.Registry {
	t.Helper()
	o.Username, o.Password = "u", "p"
	return registrytest.Distribution(t, registrytest.TokenAuth(o))
}

// scopesAsked are the scopes of each token request.
func scopesAsked(r *registrytest.Registry) []string {
	var out []string
	for _, q := range r.TokenRequests() {
		out = append(out, strings.Join(q.Scopes, " "))
	}
	return out
}

func TestWholePublishCostsOneChallengeAndOneToken(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	img := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Layers: 5})
	for _, b := range img.Blobs[1:] {
		r.PushBlob("s/img", b)
	}
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}).Writable("s/img")
	if _, err := repo.Resolve(t.Context(), "1"); !registry.Absent(err) {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for _, b := range img.Blobs {
		wg.Go(func() {
			if _, err := repo.CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, nil)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	noError(t, repo.PutManifest(t.Context(), img.Root))
	noError(t, repo.PutTag(t.Context(), "1", img.Root))
	_, err := repo.Manifest(t.Context(), "1")
	noError(t, err)
	if d := cmp.Diff([]string{"repository:d/x:pull,push repository:s/img:pull"}, scopesAsked(r)); d != "" {
		t.Errorf("tokens: %s", d)
	}
	if n := r.Count(registrytest.Filter{Status: 401}); n != 1 {
		t.Errorf("%d challenges, want 1\n%s", n, r.Transcript())
	}
	// HEAD twice for the challenge, 6 POSTs, 1 PUT of the config, 2 PUTs, 1 GET
	if n := len(r.Log()); n != 12 {
		t.Errorf("%d requests, want 12\n%s", n, r.Transcript())
	}
}

func TestParallelFirstRequestsShareChallengeAndToken(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	img := image(t)
	r.Push("d/x", "1", img)
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")})
	parallel(t, 12, func() error {
		_, err := repo.Manifest(t.Context(), "1")
		return err
	})
	if n := len(r.TokenRequests()); n != 1 {
		t.Errorf("%d tokens, want 1", n)
	}
	if n := r.Count(registrytest.Filter{Status: 401}); n != 1 {
		t.Errorf("%d challenges, want 1", n)
	}
}

func parallel(t *testing.T, n int, f func() error) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestExpiredTokenIsReplacedOnceAndTheRequestRepeated(t *testing.T) {
	const workers = 6
	r := secured(t, registrytest.TokenOptions{})
	img := image(t)
	r.Push("d/x", "1", img)
	var sent atomic.Int64
	together := make(chan struct{})
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p"), Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
		// All workers are out with the dead token before any is answered. The
		// first three requests were the challenge, the token and the good one.
		if n := sent.Add(1); n == 3+workers {
			close(together)
		} else if n > 3 && n < 3+workers {
			<-together
		}
		return http.DefaultTransport.RoundTrip(req)
	})})
	_, err := repo.Manifest(t.Context(), "1")
	noError(t, err)
	r.ExpireTokens()
	parallel(t, workers, func() error {
		_, err := repo.Manifest(t.Context(), "1")
		return err
	})
	if n := len(r.TokenRequests()); n != 2 {
		t.Errorf("%d tokens, want one more for all: 2", n)
	}
}

func TestTokenThatExpiresInAnUploadIsReplacedAndTheBodySentWhole(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	b, opened := big(t, 1<<20), 0
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")})
	r.Fault(registrytest.Fault{Method: "PUT", BeforeAuth: true, Edit: func(*http.Request) { r.ExpireTokens() }})
	_, err := repo.CopyBlob(t.Context(), b.Descriptor, nil, opener(b.Bytes, &opened))
	noError(t, err)
	if !r.HasBlob("d/x", b.Digest) {
		t.Error("not there")
	}
	if n := r.Count(registrytest.Filter{Method: "POST"}); n != 2 {
		t.Errorf("%d POSTs, want the challenged and the good one: the session stays\n%s", n, r.Transcript())
	}
}

func TestTokenThatNeverWorksEndsInAnError(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{Grant: func(string, string, string) bool { return false }})
	_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}).Manifest(t.Context(), "1")
	if !registry.Denied(err) || !strings.Contains(err.Error(), "with the login from the test") {
		t.Errorf("got %v", err)
	}
	if n := len(r.Log()); n > 3 {
		t.Errorf("%d requests", n)
	}
}

func TestMountThatIsNotGrantedEndsInAnUploadForTheDestinationAlone(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{Grant: func(_, resource, _ string) bool { return resource == "repository:d/x" }})
	img := image(t)
	r.Push("s/img", "1", img)
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")})
	for _, b := range img.Blobs {
		got, err := repo.CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, nil))
		noError(t, err)
		if got != registry.Uploaded {
			t.Errorf("%s", got)
		}
	}
	asked := scopesAsked(r)
	if last := asked[len(asked)-1]; last != "repository:d/x:pull,push" {
		t.Errorf("tokens: %v, want the last for the destination alone", asked)
	}
	if n := r.Count(registrytest.Filter{Query: "mount="}); n > 3 {
		t.Errorf("mount asked %d times\n%s", n, r.Transcript())
	}
}

func TestIssuerThatRefusesTheSourceEndsInAnUpload(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	r.TokenFault(registrytest.Fault{Query: "s%2Fimg", Status: 403, Body: `{"errors":[{"code":"DENIED","message":"no"}]}`})
	b := image(t).Blobs[1]
	got, err := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}).CopyBlob(t.Context(), b.Descriptor, []string{"s/img"}, opener(b.Bytes, nil))
	noError(t, err)
	if got != registry.Uploaded {
		t.Errorf("%s", got)
	}
}

func TestReadingAsksForPullAndDeletingForDelete(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	img := image(t)
	r.Push("d/x", "1", img)
	repo := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")})
	_, err := repo.Manifest(t.Context(), "1")
	noError(t, err)
	noError(t, repo.DeleteManifest(t.Context(), img.Digest()))
	if d := cmp.Diff([]string{"repository:d/x:pull", "repository:d/x:delete,pull"}, scopesAsked(r)); d != "" {
		t.Error(d)
	}
}

func TestRefusedLoginIsToldWithItsSource(t *testing.T) {
	for name, auth := range map[string]registrytest.Option{
		"basic": registrytest.BasicAuth("u", "right"),
		"token": registrytest.TokenAuth(registrytest.TokenOptions{Username: "u", Password: "right"}),
	} {
		for who, credentials := range map[string]func(context.Context, string) (registry.Credential, error){
			"asked anonymously":                  nil,
			"asked with the login from the test": login("u", "wrong-secret"),
		} {
			t.Run(name+" "+who, func(t *testing.T) {
				r := registrytest.Distribution(t, auth)
				_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: credentials}).Manifest(t.Context(), "1")
				if !registry.Denied(err) || registry.Absent(err) || !strings.Contains(err.Error(), who) {
					t.Errorf("got %v", err)
				}
				if strings.Contains(err.Error(), "wrong-secret") {
					t.Errorf("the password is in %v", err)
				}
			})
		}
	}
}

func TestBasicLoginCostsOneChallengePerHost(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
	img := image(t)
	c := registry.NewClient(registry.Options{Credentials: login("u", "p")})
	for _, path := range []string{"a/a", "b/b", "c/c"} {
		r.Push(path, "1", img)
		_, err := on(t, c, r.Host, path).Manifest(t.Context(), "1")
		noError(t, err)
	}
	if n := r.Count(registrytest.Filter{Status: 401}); n != 1 {
		t.Errorf("%d challenges, want 1", n)
	}
}

func TestSeveralChallengesAreUnderstood(t *testing.T) {
	for name, lines := range map[string][]string{
		"two lines": {"Negotiate", `Basic realm="r"`},
		"one line":  {`Negotiate, basic realm="r"`},
	} {
		t.Run(name, func(t *testing.T) {
			r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
			r.Push("d/x", "1", image(t))
			r.Fault(registrytest.Fault{BeforeAuth: true, Status: 401, Header: http.Header{"Www-Authenticate": lines}})
			_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p")}).Manifest(t.Context(), "1")
			noError(t, err)
		})
	}
}

func TestIdentityTokenIsExchanged(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{RefreshToken: "identity"})
	r.Push("d/x", "1", image(t))
	_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: func(context.Context, string) (registry.Credential, error) {
		return registry.Credential{RefreshToken: "identity"}, nil
	}}).Manifest(t.Context(), "1")
	noError(t, err)
}

func TestLoginThatCannotBeLookedUpIsAnErrorOnlyWhenItIsNeeded(t *testing.T) {
	trouble := errors.New("docker-credential-nosuch is not installed")
	o := registry.Options{Credentials: func(context.Context, string) (registry.Credential, error) { return registry.Credential{}, trouble }}
	open := registrytest.Distribution(t)
	open.Push("d/x", "1", image(t))
	_, err := repo(t, open.Host, "d/x", o).Manifest(t.Context(), "1")
	noError(t, err)
	for _, auth := range []registrytest.Option{registrytest.BasicAuth("u", "p"), registrytest.TokenAuth(registrytest.TokenOptions{})} {
		r := registrytest.Distribution(t, auth)
		_, err = repo(t, r.Host, "d/x", o).Manifest(t.Context(), "1")
		var e *registry.CredentialError
		if !errors.As(err, &e) || !errors.Is(err, trouble) || e.Host != r.Host {
			t.Errorf("got %v", err)
		}
	}
}

func TestTokenServerIsGivenTimeToo(t *testing.T) {
	r := secured(t, registrytest.TokenOptions{})
	r.Push("d/x", "1", image(t))
	r.TokenFault(registrytest.Fault{Status: 429, Header: http.Header{"Retry-After": {"7"}}})
	var n naps
	_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: login("u", "p"), Sleep: n.sleep}).Manifest(t.Context(), "1")
	noError(t, err)
	if d := cmp.Diff([]time.Duration{7 * time.Second}, n.list()); d != "" {
		t.Error(d)
	}
}
