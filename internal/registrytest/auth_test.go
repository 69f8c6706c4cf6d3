package registrytest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

func TestBasicAuthAsksForTheRightPassword(t *testing.T) {
	r, _, path := withImage(t, registrytest.BasicAuth("joe", "secret"))
	got := send(t, r, "GET", path, "").want(t, http.StatusUnauthorized)
	if !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Basic ") {
		t.Errorf("challenge = %q", got.header.Get("WWW-Authenticate"))
	}
	send(t, r, "GET", path, "", "Authorization", "Basic am9lOndyb25n").want(t, http.StatusUnauthorized)
	send(t, r, "GET", path, "", "Authorization", "Basic am9lOnNlY3JldA==").want(t, http.StatusOK)
	for _, q := range r.Log() {
		if q.Auth != "" && q.Auth != "Basic" {
			t.Errorf("the log holds %q of the Authorization header", q.Auth)
		}
	}
	want := `{"auths":{"` + r.Host + `":{"auth":"am9lOnNlY3JldA=="}}}`
	if diff := cmp.Diff(want, registrytest.DockerConfig(r)); diff != "" {
		t.Error(diff)
	}
}

// fetchToken asks for a token and returns status and token.
func fetchToken(t *testing.T, r *registrytest.Registry, user, password string, scopes ...string) (int, string) {
	t.Helper()
	q := url.Values{"service": {"registrytest"}, "scope": scopes}
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+r.TokenHost()+"/token?"+q.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		req.SetBasicAuth(user, password)
	}
	return readToken(t, http.DefaultClient, req)
}

func readToken(t *testing.T, c *http.Client, req *http.Request) (int, string) {
	t.Helper()
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer struct {
		Token       string `json:"token"`
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return resp.StatusCode, answer.AccessToken
}

func bearer(t *testing.T, r *registrytest.Registry, method, path, token string) int {
	t.Helper()
	return send(t, r, method, path, "", "Authorization", "Bearer "+token).status
}

func TestChallengeNamesRealmServiceAndScope(t *testing.T) {
	r, _, _ := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{}))
	realm := `Bearer realm="http://` + r.TokenHost() + `/token",service="registrytest"`
	for _, c := range []struct{ method, path, want string }{
		{"GET", "/v2/", realm},
		{"GET", "/v2/_catalog", realm + `,scope="registry:catalog:*"`},
		{"HEAD", "/v2/app/manifests/1", realm + `,scope="repository:app:pull"`},
		{"PUT", "/v2/team/app/manifests/1", realm + `,scope="repository:team/app:pull,push"`},
		{"DELETE", "/v2/app/manifests/1", realm + `,scope="repository:app:delete"`},
		{"POST", "/v2/app/blobs/uploads/?mount=x&from=base", realm + `,scope="repository:app:pull,push repository:base:pull"`},
	} {
		got := send(t, r, c.method, c.path, "").want(t, http.StatusUnauthorized)
		if diff := cmp.Diff(c.want, got.header.Get("WWW-Authenticate")); diff != "" {
			t.Errorf("%s %s: %s", c.method, c.path, diff)
		}
	}
}

func TestTokensAreGoodForTheirScopesOnly(t *testing.T) {
	r, _, path := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{Username: "joe", Password: "secret"}))
	if status, _ := fetchToken(t, r, "", ""); status != http.StatusUnauthorized {
		t.Errorf("anonymous: %d", status)
	}
	if status, _ := fetchToken(t, r, "joe", "wrong"); status != http.StatusUnauthorized {
		t.Errorf("wrong password: %d", status)
	}
	_, pull := fetchToken(t, r, "joe", "secret", "repository:app:pull repository:other:pull")
	if got := bearer(t, r, "GET", path, pull); got != http.StatusOK {
		t.Errorf("GET = %d", got)
	}
	got := send(t, r, "POST", "/v2/app/blobs/uploads/", "", "Authorization", "Bearer "+pull).want(t, http.StatusUnauthorized)
	if !strings.Contains(got.header.Get("WWW-Authenticate"), `error="insufficient_scope"`) {
		t.Errorf("challenge = %s", got.header.Get("WWW-Authenticate"))
	}
	_, push := fetchToken(t, r, "joe", "secret", "repository:other:pull", "repository:app:pull,push")
	if got := bearer(t, r, "POST", "/v2/app/blobs/uploads/", push); got != http.StatusAccepted {
		t.Errorf("POST = %d", got)
	}
	if reqs := r.TokenRequests(); len(reqs) != 4 || reqs[3].User != "joe" || len(reqs[3].Scopes) != 2 {
		t.Errorf("token requests = %+v", reqs)
	}
}

func TestTokensExpireByUseAndOnCommand(t *testing.T) {
	r, _, path := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{Uses: 2}))
	_, token := fetchToken(t, r, "", "", "repository:app:pull")
	got := []int{bearer(t, r, "GET", path, token), bearer(t, r, "GET", path, token), bearer(t, r, "GET", path, token)}
	_, token = fetchToken(t, r, "", "", "repository:app:pull")
	r.ExpireTokens()
	got = append(got, bearer(t, r, "GET", path, token))
	if diff := cmp.Diff([]int{200, 200, 401, 401}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTokenServerCanGrantLess(t *testing.T) {
	r, _, path := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{
		Username: "joe", Password: "secret", AnonymousPull: true,
		Grant: func(_, resource, _ string) bool { return resource != "repository:private" },
	}))
	_, token := fetchToken(t, r, "", "", "repository:app:pull,push")
	if get, post := bearer(t, r, "GET", path, token), bearer(t, r, "POST", "/v2/app/blobs/uploads/", token); get != 200 || post != 401 {
		t.Errorf("anonymous: GET %d, POST %d", get, post)
	}
	_, token = fetchToken(t, r, "joe", "secret", "repository:private:pull")
	if got := bearer(t, r, "GET", "/v2/private/manifests/1", token); got != http.StatusUnauthorized {
		t.Errorf("private: %d", got)
	}
}

func TestIdentityTokensAreTakenByPOST(t *testing.T) {
	r, _, path := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{Username: "joe", Password: "secret", RefreshToken: "identity"}))
	for form, want := range map[string]int{
		"grant_type=refresh_token&refresh_token=identity":  200,
		"grant_type=refresh_token&refresh_token=other":     401,
		"grant_type=password&username=joe&password=secret": 200,
		"grant_type=password&username=joe&password=no":     401,
	} {
		req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+r.TokenHost()+"/token", strings.NewReader(form+"&scope=repository:app:pull"))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		status, token := readToken(t, http.DefaultClient, req)
		if status != want {
			t.Errorf("%s: %d, want %d", form, status, want)
		}
		if got := bearer(t, r, "GET", path, token); got != want {
			t.Errorf("%s: GET %d, want %d", form, got, want)
		}
	}
}

func TestFaultsSeeAuthorisedRequestsUnlessToldOtherwise(t *testing.T) {
	r, _, path := withImage(t, registrytest.BasicAuth("joe", "secret"))
	r.Fault(registrytest.Fault{Status: 503})
	send(t, r, "GET", path, "").want(t, http.StatusUnauthorized)
	send(t, r, "GET", path, "", "Authorization", "Basic am9lOnNlY3JldA==").want(t, 503)
	r.Fault(registrytest.Fault{BeforeAuth: true, Status: 502})
	send(t, r, "GET", path, "").want(t, 502)
}

func TestTokenServerHasFaultsToo(t *testing.T) {
	r, _, _ := withImage(t, registrytest.TokenAuth(registrytest.TokenOptions{}))
	r.TokenFault(registrytest.Fault{Status: 503, Body: "{}"})
	if status, _ := fetchToken(t, r, "", ""); status != 503 {
		t.Errorf("status %d", status)
	}
	if status, token := fetchToken(t, r, "", ""); status != 200 || token == "" {
		t.Errorf("status %d, token %q", status, token)
	}
}
