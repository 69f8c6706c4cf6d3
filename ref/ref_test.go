package ref_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/ref"
)

const (
	hex256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	sha256 = "sha256:" + hex256
	sha512 = "sha512:" + hex256 + hex256
)

func TestParseReadsNamesAsDockerDoes(t *testing.T) {
	for name, want := range map[string]ref.Reference{
		"busybox":                                {Host: "docker.io", Repository: "library/busybox"},
		"busybox:1.36":                           {Host: "docker.io", Repository: "library/busybox", Tag: "1.36"},
		"docker.io/busybox":                      {Host: "docker.io", Repository: "library/busybox"},
		"index.docker.io/library/busybox":        {Host: "docker.io", Repository: "library/busybox"},
		"team/app":                               {Host: "docker.io", Repository: "team/app"},
		"docker.io/team/app:1":                   {Host: "docker.io", Repository: "team/app", Tag: "1"},
		"ghcr.io/a/b/c:v1":                       {Host: "ghcr.io", Repository: "a/b/c", Tag: "v1"},
		"localhost/a":                            {Host: "localhost", Repository: "a"},
		"localhost:5000/a":                       {Host: "localhost:5000", Repository: "a"},
		"127.0.0.1:5000/a:1":                     {Host: "127.0.0.1:5000", Repository: "a", Tag: "1"},
		"myreg:80/a":                             {Host: "myreg:80", Repository: "a"},
		"myreg:443/a":                            {Host: "myreg:443", Repository: "a"},
		"localhost.localdomain:5000/a":           {Host: "localhost.localdomain:5000", Repository: "a"},
		"[::1]:5000/s/img:1":                     {Host: "[::1]:5000", Repository: "s/img", Tag: "1"},
		"[::1]/s/img":                            {Host: "[::1]", Repository: "s/img"},
		"[2001:db8::1]:443/s/img@" + sha256:      {Host: "[2001:db8::1]:443", Repository: "s/img", Digest: sha256},
		"app:1.0@" + sha256:                      {Host: "docker.io", Repository: "library/app", Tag: "1.0", Digest: sha256},
		"r.example/app@" + sha512:                {Host: "r.example", Repository: "app", Digest: sha512},
		"oci:5000/app":                           {Host: "oci:5000", Repository: "app"},
		"r.example/a__b/c-d.e:V_1.2-" + hex256:   {Host: "r.example", Repository: "a__b/c-d.e", Tag: "V_1.2-" + hex256},
		"r.example/a:" + strings.Repeat("x", 64): {Host: "r.example", Repository: "a", Tag: strings.Repeat("x", 64)},
	} {
		got, err := ref.Parse(name)
		if err != nil {
			t.Errorf("Parse(%q): %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%q) (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRefusesWhatIsNotAReferenceAndQuotesIt(t *testing.T) {
	for name, reason := range map[string]string{
		"":                          "empty reference",
		"https://ghcr.io/a/b":       `write "ghcr.io/a/b" without "https://"`,
		"docker://busybox":          `without "docker://"`,
		"r.example/App":             "lowercase",
		"r.example/a:":              "invalid reference format",
		"r.example/a@sha256:abc":    "invalid",
		"r.example/a@md5:" + hex256: "digest",
		"[fe80::1%25lo]:5000/x":     "invalid reference format",
		hex256:                      "64-byte hexadecimal",
		"a b":                       "invalid reference format",
		"r.example/a:" + strings.Repeat("x", 129):                                       "invalid",
		"r.example/" + strings.Repeat("x", 256):                                         "255",
		"s/img@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": "empty content",
	} {
		_, err := ref.Parse(name)
		var e *ref.Error
		if !errors.As(err, &e) {
			t.Errorf("Parse(%q) = %v, want an *Error", name, err)
			continue
		}
		if e.Name != name || !strings.Contains(e.Reason, reason) {
			t.Errorf("Parse(%q): reason %q does not say %q", name, e.Reason, reason)
		}
	}
}

func TestADigestDecidesAndATagIsOnlyALabel(t *testing.T) {
	r, err := ref.Parse("r.example/img:1.0@" + sha256)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Identifier(); got != sha256 {
		t.Errorf("Identifier() = %q, want the digest", got)
	}
	if got := r.WithTag("2"); got.Digest != "" || got.Identifier() != "2" {
		t.Errorf("WithTag keeps the digest: %+v", got)
	}
	if got := r.WithDigest(sha512); got.Tag != "" || got.Identifier() != sha512 {
		t.Errorf("WithDigest keeps the tag: %+v", got)
	}
	if got := r.Repo(); got.Identifier() != "" || !got.SameRepository(r) {
		t.Errorf("Repo() = %+v", got)
	}
}

func TestOnlyOrLatestInventsATag(t *testing.T) {
	for name, want := range map[string]string{
		"r.example/a":           "r.example/a:latest",
		"r.example/a:1":         "r.example/a:1",
		"r.example/a@" + sha256: "r.example/a@" + sha256,
		"busybox":               "docker.io/library/busybox:latest",
	} {
		r, err := ref.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.OrLatest().String(); got != want {
			t.Errorf("%q.OrLatest() = %q, want %q", name, got, want)
		}
	}
}

func TestLoopbackIsThisMachineAndNothingElse(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:5000": true, "LOCALHOST:5000": true, "a.localhost:80": true,
		"127.0.0.1": true, "127.0.0.1:5000": true, "127.8.9.10:1": true, "[::1]": true, "[::1]:5000": true,
		"localhost.localdomain:5000": false, "notlocalhost": false, "localhost.example": false,
		"10.0.0.1:5000": false, "0.0.0.0:5000": false, "[2001:db8::1]:5000": false, "myreg:80": false,
		"127.0.0.1.example:5000": false, "": false, "docker.io": false,
	} {
		if got := ref.IsLoopback(host); got != want {
			t.Errorf("IsLoopback(%q) = %v", host, got)
		}
	}
}

// FuzzParse: whatever parses is written back in a form that parses to the same.
func TestIsTag(t *testing.T) {
	for name, want := range map[string]bool{
		"1": true, "v1.0-rc_2": true, "_x": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, ".x": false, "../x": false, "a/b": false, "a\nb": false, "a\x1b[2J": false, "a ": false,
	} {
		if ref.IsTag(name) != want {
			t.Errorf("IsTag(%q) is %v", name, !want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"busybox", "docker.io", "index.docker.io/a", "localhost:5000/a:1", "[::1]:5000/a/b:1@" + sha256,
		"a.b/c@" + sha512, "https://x", "a//b", "A/b", "a:@", "", "docker.io/library/docker.io:x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ref.Parse(s)
		if err != nil {
			return
		}
		if r.Host == "" || r.Repository == "" {
			t.Fatalf("Parse(%q) = %+v", s, r)
		}
		if r.Digest != "" && r.Digest.Validate() != nil {
			t.Fatalf("Parse(%q) passes the digest %q", s, r.Digest)
		}
		again, err := ref.Parse(r.String())
		if err != nil || again != r {
			t.Fatalf("Parse(%q) = %+v, but its String %q reads as %+v, %v", s, r, r.String(), again, err)
		}
	})
}

// TestPasswordIsNotQuoted: a name with a login is refused without repeating it,
// whatever its spelling.
func TestPasswordIsNotQuoted(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for _, s := range []string{
		"http://user:SECRET@host/a", "https://SECRET@host/a:1", "docker://u:SECRET@h:5000/a", "http://u:SECRET@host/a" + digest,
		"u:SECRET@host/x:1", "SECRET@host/x", "u:SECRET@host", "u:SE/CRET@host/x" + digest, "U:SECRET@sha@host/x", "u:SE CRET@host:5000/x",
		"docker-daemon:u:SECRET@host/x:1", "docker-daemon:SECRET@host/x" + digest,
	} {
		var refused *ref.Error
		_, err := ref.ParseLocation(s)
		if !errors.As(err, &refused) || strings.Contains(err.Error(), "SE") || strings.Contains(err.Error(), "CRET") || !strings.Contains(err.Error(), "login") {
			t.Errorf("%v", err)
		}
	}
	for _, s := range []string{"docker://host/a" + digest, "host/a@sha256:short", "host/a@md5:" + strings.Repeat("a", 32), "host/A" + digest} {
		if _, err := ref.Parse(s); err == nil || !strings.Contains(err.Error(), s) {
			t.Errorf("a reference without a login is quoted: %v", err)
		}
	}
}
