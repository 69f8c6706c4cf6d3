// Package ref reads the name of an image the way Docker does and splits it
// into host, repository, tag and digest.
//
// The grammar is that of github.com/distribution/reference, which every
// registry shares; this package adds no spelling of its own. "busybox" is
// docker.io/library/busybox, "localhost:5000/a" is a repository on a host,
// and an IPv6 host keeps its brackets. A name that does not parse is refused
// with an [*Error] that quotes it; nothing is guessed and nothing is written
// down that the user did not write, with one exception: [Reference.OrLatest].
//
// Read ref.go first; location.go adds the names of things that are not in a
// registry (oci:DIR, oci-archive:FILE).
package ref

import (
	_ "crypto/sha256" // a digest parses only when its algorithm is linked in
	_ "crypto/sha512"
	"fmt"
	"net"
	"strings"

	"github.com/distribution/reference"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/opencontainers/go-digest"
)

// Reference names an image in a registry. Host and Repository are always set;
// Tag and Digest may both be empty (the repository itself), and both may be
// set: then the digest decides what is read, and the tag is only a label.
type Reference struct {
	// Host is the registry's host with its port as written, "docker.io" for
	// Docker Hub. It is the key of credentials and of per-host limits.
	Host string
	// Repository is the path below the host, "library/busybox".
	Repository string
	// Tag is empty when none was written.
	Tag string
	// Digest is empty when none was written.
	Digest digest.Digest
}

// emptyDigest is the sha256 of nothing. It names no manifest; it appears when
// a failed command's empty output was hashed (docling-project/docling.rs#337).
const emptyDigest = digest.Digest("sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855")

// Error reports a name that is not a reference.
type Error struct {
	// Name is the text as given, without a login.
	Name string
	// Reason says what is wrong with it.
	Reason string
}

func (e *Error) Error() string { return fmt.Sprintf("%q: %s", e.Name, e.Reason) }

// Parse reads a reference. It returns an [*Error] when s is not one.
func Parse(s string) (Reference, error) {
	if s == "" {
		return Reference{}, &Error{Name: s, Reason: "empty reference"}
	}
	if redact.Secret(s) {
		return Reference{}, &Error{Name: redact.Word(s), Reason: "a reference has no login before its host, and what follows the @ is no digest"}
	}
	if scheme, rest, ok := strings.Cut(s, "://"); ok {
		return Reference{}, &Error{Name: s, Reason: fmt.Sprintf("a reference has no scheme: write %q without %q", rest, scheme+"://")}
	}
	named, err := reference.ParseNormalizedNamed(s)
	if err != nil {
		return Reference{}, &Error{Name: s, Reason: err.Error()}
	}
	r := Reference{Host: reference.Domain(named), Repository: reference.Path(named)}
	if tagged, ok := named.(reference.Tagged); ok {
		r.Tag = tagged.Tag()
	}
	if digested, ok := named.(reference.Digested); ok {
		r.Digest = digested.Digest()
		if r.Digest == emptyDigest {
			return Reference{}, &Error{Name: s, Reason: "this is the digest of empty content, no manifest has it"}
		}
	}
	return r, nil
}

// OrLatest returns r with the tag "latest" when it has neither tag nor digest,
// as Docker does when a name is pulled or pushed.
func (r Reference) OrLatest() Reference {
	if r.Tag == "" && r.Digest == "" {
		r.Tag = "latest"
	}
	return r
}

// Name is the repository with its host, "docker.io/library/busybox".
func (r Reference) Name() string { return r.Host + "/" + r.Repository }

// SameRepository reports whether both references name one repository.
func (r Reference) SameRepository(o Reference) bool {
	return r.Host == o.Host && r.Repository == o.Repository
}

// Identifier is what a manifest request asks for: the digest when there is
// one, else the tag. It is empty for a bare repository.
func (r Reference) Identifier() string {
	if r.Digest != "" {
		return r.Digest.String()
	}
	return r.Tag
}

// WithDigest returns the reference of content in the same repository, without
// a tag.
func (r Reference) WithDigest(d digest.Digest) Reference {
	return Reference{Host: r.Host, Repository: r.Repository, Digest: d}
}

// WithTag returns the reference of a tag in the same repository, without a
// digest.
func (r Reference) WithTag(tag string) Reference {
	return Reference{Host: r.Host, Repository: r.Repository, Tag: tag}
}

// IsTag reports whether a name can be a tag: word characters, dots and dashes,
// beginning with a word character, 128 at the most.
func IsTag(name string) bool { return reference.TagRegexp.FindString(name) == name && name != "" }

// Repo returns the reference of the repository alone.
func (r Reference) Repo() Reference {
	return Reference{Host: r.Host, Repository: r.Repository}
}

// String is the full spelling; [Parse] reads it back to the same value.
func (r Reference) String() string {
	var b strings.Builder
	b.WriteString(r.Name())
	if r.Tag != "" {
		b.WriteString(":" + r.Tag)
	}
	if r.Digest != "" {
		b.WriteString("@" + r.Digest.String())
	}
	return b.String()
}

// IsLoopback reports whether a registry host is this machine: localhost or
// 127.0.0.0/8 or [::1], with any port. Such hosts are spoken to in plain HTTP
// when they do not answer in TLS; no other host ever is without being told.
func IsLoopback(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip := net.ParseIP(name)
	return ip != nil && ip.IsLoopback()
}
