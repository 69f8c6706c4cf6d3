package redact_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/internal/redact"
)

const sha256 = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b854"

func TestTextHidesLoginsAndTokens(t *testing.T) {
	for text, want := range map[string]string{
		`dial tcp://u:S3CRET@10.0.0.1:2375: refused`:             `dial tcp://xxxxx@10.0.0.1:2375: refused`,
		`"bad://u:S3CRET@h:1" and "https://S3CRET@h/x.git"`:      `"bad://xxxxx@h:1" and "https://xxxxx@h/x.git"`,
		`http://u:S3/CR@ET@h/x`:                                  `http://xxxxx@h/x`,
		`http://u:S3CRET"@h/x: no`:                               `http://xxxxx@h/x: no`,
		`git+HTTPS://u:S3CRET@h/x.git#main:sub`:                  `git+HTTPS://xxxxx@h/x.git#main:sub`,
		`ssh://git@h/x and ssh://git:S3CRET@h/x`:                 `ssh://git@h/x and ssh://git:xxxxx@h/x`,
		`(http://h/c.tar?token=S3CRET&key=S3CRET&ref=main): 404`: `(http://h/c.tar?token=REDACTED&key=REDACTED&ref=main): 404`,
		`"http://h/c.tar?a=S3CRET", line 2`:                      `"http://h/c.tar?a=REDACTED", line 2`,
		"http://h/?a=S3CRET#frag\nhttp://S3CRET@h":               "http://h/?a=REDACTED#frag\nhttp://xxxxx@h",
	} {
		if got := redact.Text(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
	}
}

func TestTextLeavesTheRest(t *testing.T) {
	for _, s := range []string{
		"", "://", "a://", "mail me@host, u:x@y", "https://h/a@v1.2/b?ref=x#y@z", "docker-image://alpine@" + sha256,
		"docker-image://h:5000/a:1@" + sha256 + ": not found", "unix:///run/a@b.sock", `"http://h": get u@h`, "http://[::1]:5000/x", "is it? http://h/x?",
	} {
		if got := redact.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

func TestWordHidesWhatMayBeALogin(t *testing.T) {
	for word, want := range map[string]string{
		"u:S3CRET@host/x:1":                "xxxxx@host/x:1",
		"S3CRET@host/x@" + sha256:          "xxxxx@host/x@" + sha256,
		"docker://u:S3 /CRET@h/x":          "docker://xxxxx@h/x",
		"bad://u:S3CRET@h?token=S3CRET":    "bad://xxxxx@h?token=REDACTED",
		"http://u:S3CRET@h/x@sha256:short": "http://xxxxx@h/x@sha256:short",
		"host:5000/app:1@" + sha256:        "host:5000/app:1@" + sha256,
		"u:S3CRET@shared:5000/x":           "xxxxx@shared:5000/x",
		"S3CRET@h:5000/" + sha256[7:]:      "xxxxx@h:5000/" + sha256[7:],
		"unix:///a@b":                      "unix:///a@b",
	} {
		got := redact.Word(word)
		if got != want || redact.Secret(word) != strings.Contains(want, "xxxxx") && !strings.HasPrefix(word, "unix") {
			t.Errorf("%s became %s, want %s (secret: %t)", word, got, want, redact.Secret(word))
		}
	}
}

func TestErrorKeepsItsCauses(t *testing.T) {
	err := redact.Error(fmt.Errorf("get http://u:S3CRET@h/: %w", io.ErrUnexpectedEOF))
	if !errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "S3CRET") {
		t.Errorf("%v", err)
	}
	if redact.Error(io.EOF) != io.EOF || redact.Error(nil) != nil {
		t.Error("an error without an address is another")
	}
}

func FuzzText(f *testing.F) {
	f.Add("http://u:p@h/x?t=1 y")
	f.Fuzz(func(t *testing.T, s string) {
		once := redact.Text(s)
		if again := redact.Text(once); again != once {
			t.Errorf("%q, then %q", once, again)
		}
	})
}
