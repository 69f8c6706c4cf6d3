package registry

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

func TestLinks(t *testing.T) {
	for line, want := range map[string]string{
		`</v2/x?last=a>; rel="next"`:         "/v2/x?last=a",
		`</v2/x?last=a>; rel=next`:           "/v2/x?last=a",
		`</v2/x?last=a,b>; rel="next"`:       "/v2/x?last=a,b",
		`</p>; rel="prev", </n>; rel="next"`: "/n",
		`</n>; title="a, b"; REL="Next"`:     "/n",
		`</p>; rel="prev"`:                   "",
		`</n>`:                               "",
		`</n; rel="next"`:                    "",
		`rel="next"`:                         "",
		``:                                   "",
		`<http://h/n>; rel="first next"; title="x; rel=prev,"`: "http://h/n",
	} {
		if got := nextLink([]string{line}); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	if got := nextLink([]string{`</p>; rel="prev"`, `</n>; rel="next"`}); got != "/n" {
		t.Errorf("two lines: got %q", got)
	}
}

func FuzzLinkIsPartOfItsHeader(f *testing.F) {
	for _, s := range []string{`</v2/x?last=a,b>; rel="next"`, `</p>; rel="prev", </n>; title="a, b"; rel=next`, `<`, `<>;rel=next`, `"<a>;rel=next`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := nextLink([]string{s}); got != "" && !strings.Contains(s, "<"+got+">") {
			t.Errorf("%q gives %q", s, got)
		}
	})
}

func TestErrorBodies(t *testing.T) {
	for body, want := range map[string][]Code{
		`{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"1"}}]}`:    {{"MANIFEST_UNKNOWN", "manifest unknown", `{"Tag":"1"}`}},
		`{"errors":[{"code":"A"},{"code":"B","message":"b\n\u001b[31mred"}]}`:                           {{Code: "A"}, {Code: "B", Message: "b [31mred"}},
		`{"code":"UNAUTHORIZED","message":"authentication required","description":"","detail":{"a":1}}`: {{"UNAUTHORIZED", "authentication required", `{"a":1}`}},
		`{"errors":[{"code":404,"message":null}]}`:                                                      {{Code: "404"}},
		`{"errors":null}`:    nil,
		`{"errors":[]}`:      nil,
		`{"errors":{}}`:      nil,
		`[]`:                 nil,
		`404 page not found`: nil,
		``:                   nil,
	} {
		if d := cmp.Diff(want, parseCodes([]byte(body))); d != "" {
			t.Errorf("%s: %s", body, d)
		}
	}
}

func FuzzErrorBodyIsFitForATerminal(f *testing.F) {
	for _, s := range []string{
		`{"errors":[{"code":"A","message":"b\u001b[31m","detail":["\u0007"]}]}`, `{"code":"X","message":{"a":"\u009b"}}`,
		"<html><title>\x1b[2J</title>", "\xff\xfe", `{"errors":[{"code":"` + strings.Repeat("x", 1000) + `"}]}`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e := &Error{Op: "op", Reference: "r", Status: 404, Codes: parseCodes([]byte(s)), Summary: summary("text/html", []byte(s))}
		for _, text := range []string{e.Error(), e.Summary} {
			if i := strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }); i >= 0 {
				t.Errorf("%q has %q", s, text[i:])
			}
		}
		if len(e.Codes) == 0 && len([]rune(e.Summary)) > 2*maxLine {
			t.Errorf("%d runes", len(e.Summary))
		}
	})
}

func TestHeldBytesOfASession(t *testing.T) {
	for header, want := range map[string]int64{"0-1023": 1024, "bytes=0-9": 10, " 0-1 ": 2, "0-0": 0, "0--1": 0, "": 0, "5-9": 0, "x": 0, "0-": 0} {
		got, ok := held(header)
		if ok != (want > 0) || (ok && got != want) {
			t.Errorf("%q: %d, %v", header, got, ok)
		}
	}
}

func TestContentRanges(t *testing.T) {
	for header, want := range map[string]int64{"bytes 5-9/10": 5, "bytes 0-9/*": 0, "bytes */10": -1, "5-9": -1, "": -1, "bytes -5-9/10": -1} {
		if got, ok := rangeStart(header); ok != (want >= 0) || (ok && got != want) {
			t.Errorf("%q: %d, %v", header, got, ok)
		}
	}
}

func TestCommitKeepsTheQueryAsGiven(t *testing.T) {
	at, err := url.Parse("https://h/v2/x/blobs/uploads/1?_state=b%2Fa&a=1;2")
	if err != nil {
		t.Fatal(err)
	}
	if got := commitURL(at, "sha256:aa").String(); got != "https://h/v2/x/blobs/uploads/1?_state=b%2Fa&a=1;2&digest=sha256%3Aaa" {
		t.Error(got)
	}
}

func TestLocationsOfTheHostKeepItsScheme(t *testing.T) {
	c := NewClient(Options{})
	for location, want := range map[string]string{
		"/v2/x/blobs/uploads/1":                        "https://reg.example/v2/x/blobs/uploads/1",
		"http://reg.example/v2/x/blobs/uploads/1":      "https://reg.example/v2/x/blobs/uploads/1",
		"https://REG.example:443/v2/x/blobs/uploads/1": "https://reg.example/v2/x/blobs/uploads/1",
		"http://reg.example:80/v2/x/blobs/uploads/1":   "https://reg.example/v2/x/blobs/uploads/1",
		"https://u:p@other.example/1#f":                "https://other.example/1",
		"ftp://reg.example/1":                          "",
		"":                                             "",
	} {
		u := &upload{repo: &Repository{client: c, host: c.host("reg.example")}}
		from, _ := url.Parse("https://reg.example/v2/x/blobs/uploads/")
		err := u.follow(&http.Response{Header: http.Header{"Location": {location}}, Body: http.NoBody, Request: &http.Request{URL: from}})
		if (err == nil) != (want != "") {
			t.Errorf("%q: %v", location, err)
		}
		if err != nil {
			continue
		}
		req, err := u.repo.request(t.Context(), call{method: "PUT", at: u.at}, "https")
		if err != nil || req.URL.String() != want {
			t.Errorf("%q: %v, %v", location, req, err)
		}
	}
}

func TestCanonicalKeys(t *testing.T) {
	for key, want := range map[string]string{
		"https://index.docker.io/v1/": "docker.io", "registry-1.docker.io": "docker.io", "docker.io/library": "docker.io/library",
		"https://Reg:5000/v2/Team": "reg:5000/v2/Team", "http://reg/v2/": "reg", "reg/team/": "reg/team", "": "",
	} {
		if got := canonicalKey(key); got != want {
			t.Errorf("%q: %q, want %q", key, got, want)
		}
	}
}
