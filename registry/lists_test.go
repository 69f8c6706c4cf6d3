package registry_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

func tags(t *testing.T, r *registry.Repository) ([]string, error) {
	t.Helper()
	var out []string
	for tag, err := range r.Tags(t.Context()) {
		if err != nil {
			return out, err
		}
		out = append(out, tag)
	}
	return out, nil
}

func TestTagsOfRealRegistries(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := image(t)
		want := []string{"1", "2", "latest"}
		for _, tag := range want {
			r.Push("d/x", tag, img)
		}
		got, err := tags(t, repo(t, r.Host, "d/x", registry.Options{}))
		noError(t, err)
		if d := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b string) bool { return a < b })); d != "" {
			t.Error(d)
		}
		if _, err := tags(t, repo(t, r.Host, "no/such", registry.Options{})); !registry.Absent(err) {
			t.Errorf("repository that does not exist: %v", err)
		}
	})
}

// paged serves 120 tags, 50 a page; link writes the Link header.
func paged(t *testing.T, link func(host string, last int) string) string {
	t.Helper()
	return scripted(t, func(w http.ResponseWriter, r *http.Request) {
		last, _ := strconv.Atoi(r.URL.Query().Get("last"))
		end := min(last+50, 120)
		if end < 120 {
			w.Header().Set("Link", link(r.Host, end))
		}
		body := `{"name":"d/x","tags":[`
		for i := last; i < end; i++ {
			if i > last {
				body += ","
			}
			body += fmt.Sprintf(`"t%d"`, i)
		}
		_, _ = w.Write([]byte(body + "]}"))
	})
}

func TestPagesAreFollowedAsTheyAreGiven(t *testing.T) {
	for name, link := range map[string]func(string, int) string{
		"relative": func(_ string, n int) string { return fmt.Sprintf(`</v2/d/x/tags/list?last=%d&n=50>; rel="next"`, n) },
		"absolute": func(h string, n int) string {
			return fmt.Sprintf(`<http://%s/v2/d/x/tags/list?last=%d>; rel="next"`, h, n)
		},
		"no quotes": func(_ string, n int) string { return fmt.Sprintf(`</v2/d/x/tags/list?last=%d>; rel=next`, n) },
		"extra params": func(_ string, n int) string {
			return fmt.Sprintf(`</v2/d/x/tags/list?last=%d&x=a,b>; title="a, b"; rel="next last"`, n)
		},
		"query only": func(_ string, n int) string { return fmt.Sprintf(`<?last=%d>; rel="next"`, n) },
	} {
		t.Run(name, func(t *testing.T) {
			got, err := tags(t, repo(t, paged(t, link), "d/x", registry.Options{}))
			noError(t, err)
			if len(got) != 120 || got[119] != "t119" {
				t.Errorf("%d tags", len(got))
			}
		})
	}
}

func TestListThatGoesRoundInCirclesIsAnError(t *testing.T) {
	for name, link := range map[string]func(string, int) string{
		"same page for ever": func(string, int) string { return `</v2/d/x/tags/list?last=50>; rel="next"` },
		"another host":       func(string, int) string { return `<http://127.0.0.1:1/v2/d/x/tags/list?last=50>; rel="next"` },
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := tags(t, repo(t, paged(t, link), "d/x", registry.Options{})); err == nil {
				t.Errorf("%d tags, no error", len(got))
			}
		})
	}
}

func TestNullTagsAreNone(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"name":"d/x","tags":null}`: true, `{"name":"d/x"}`: true, `{"tags":[]}`: true,
		`null`: false, `[]`: false, `<html></html>`: false, `{"tags":"1"}`: false,
	} {
		host := scripted(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(body)) })
		got, err := tags(t, repo(t, host, "d/x", registry.Options{}))
		if len(got) != 0 || (err == nil) != ok {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
}

func TestNamesThatCannotBeTagsAreRefused(t *testing.T) {
	for _, name := range []string{"../../other/manifests/latest", "", "a b", "a\\u001b[2J", "a/b"} {
		host := scripted(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(`{"tags":["1","` + name + `"]}`)) })
		got, err := tags(t, repo(t, host, "d/x", registry.Options{}))
		if err == nil || len(got) != 0 || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
}

func TestNoNameLeavesTheRepository(t *testing.T) {
	asked := false
	host := scripted(t, func(http.ResponseWriter, *http.Request) { asked = true })
	r := repo(t, host, "d/x", registry.Options{})
	b := image(t).Root
	for _, name := range []string{"..", "../../other/manifests/1", "."} {
		_, readErr := r.Manifest(t.Context(), name)
		if readErr == nil || r.PutTag(t.Context(), name, b) == nil || r.DeleteTag(t.Context(), name) == nil {
			t.Errorf("%q was taken", name)
		}
	}
	if asked {
		t.Error("a request went out")
	}
}

func TestReferrersByAPIAndByFallbackTag(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		img := image(t)
		r.Push("d/x", "1", img)
		subject := img.Root.Descriptor
		signature := registrytest.Artifact(t, registrytest.ArtifactOptions{Subject: &subject})
		r.Push("d/x", "", signature)
		if !r.Features.Referrers {
			r.Push("d/x", "sha256-"+img.Digest().Encoded(), registrytest.Index(t, registrytest.IndexOptions{}, signature))
		}
		repo := repo(t, r.Host, "d/x", registry.Options{})
		got, err := repo.Referrers(t.Context(), img.Digest())
		noError(t, err)
		if len(got) != 1 || got[0].Digest != signature.Digest() {
			t.Errorf("got %v", got)
		}
		r.Reset()
		none, err := repo.Referrers(t.Context(), digest.FromString("other"))
		if err != nil || none != nil {
			t.Errorf("of something without: %v, %v", none, err)
		}
		if n := len(r.Log()); n != 1 {
			t.Errorf("%d requests, want 1: what the registry can is remembered\n%s", n, r.Transcript())
		}
	})
}

func TestReferrersThatCannotBeAskedAreAnError(t *testing.T) {
	for _, status := range []int{401, 403, 500} {
		r := registrytest.Distribution(t)
		r.Fault(registrytest.Fault{Status: status, Times: registrytest.Always})
		if got, err := repo(t, r.Host, "d/x", registry.Options{}).Referrers(t.Context(), oci.NewBlob("", nil).Digest); err == nil {
			t.Errorf("%d: %v, no error", status, got)
		}
	}
}
