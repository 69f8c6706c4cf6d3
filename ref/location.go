package ref

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/opencontainers/go-digest"
)

// Transport says where a [Location] is.
type Transport string

// The transports. The zero value is a registry.
const (
	Registry Transport = ""
	// OCILayout is a directory in OCI image layout.
	OCILayout Transport = "oci"
	// OCIArchive is a tar of an OCI image layout.
	OCIArchive Transport = "oci-archive"
	// DockerArchive is a tar that "docker save" wrote.
	DockerArchive Transport = "docker-archive"
	// DockerDaemon is the image store of a Docker Engine.
	DockerDaemon Transport = "docker-daemon"
)

// Location is a place that an image can be read from: a reference in a
// registry, an image layout or a "docker save" on disk, or a Docker Engine.
type Location struct {
	Transport Transport
	// Reference is set for [Registry].
	Reference Reference
	// Path is the directory or file for the other transports, and for
	// [DockerDaemon] the name or the ID of the image.
	Path string
	// Tag selects one image of a layout by its org.opencontainers.image.ref.name,
	// or, when it is a digest, by that; empty selects the only one. In a
	// [DockerArchive] it is a name, an image ID, or @N for the Nth image from 0.
	// IDs are sha256:HEX, HEX, or the beginning of HEX.
	Tag string
}

// ParseLocation reads oci:DIR[:TAG], oci-archive:FILE[:TAG], either with
// @DIGEST in place of :TAG, docker-archive:FILE[:NAME], docker-daemon:NAME and,
// for anything else, a reference; the transports of other tools are refused. The spelling of buildx,
// oci-layout://DIR:TAG, is read too. The error is an [*Error].
func ParseLocation(s string) (Location, error) {
	transport, rest := cutTransport(s)
	switch transport {
	case Registry:
		return parseRegistry(s)
	case DockerArchive:
		return parseDockerArchive(s, rest)
	case DockerDaemon:
		return parseDockerDaemon(s, rest)
	}
	path, tag, ok := splitPath(rest)
	if path == "" {
		return Location{}, &Error{Name: s, Reason: "path is missing"}
	}
	if !ok {
		return Location{}, &Error{Name: s, Reason: "tag or digest after the path is empty or malformed"}
	}
	return Location{Transport: transport, Path: path, Tag: tag}, nil
}

// foreign are transports of other tools, and no images that anybody pulls by
// these names. "docker" is not among them: docker:dind is an image.
var foreign = []string{"atomic", "containers-storage", "dir", "docker-image", "docker-tarball", "oci-dir", "ostree", "sif", "tarball"}

// parseRegistry reads a reference, and tells what is one from what names a
// transport that there is not: name:tag has a tag after its colon, and what is
// host:port/repository has a number there.
func parseRegistry(s string) (Location, error) {
	name, rest, ok := strings.Cut(s, ":")
	noTransport := &Error{Name: redact.Word(s), Reason: fmt.Sprintf(
		"there is no transport %s: write a reference, oci:DIR, oci-archive:FILE, docker-archive:FILE or docker-daemon:NAME", name)}
	if ok && slices.Contains(foreign, name) && !isPort(rest) {
		return Location{}, noTransport
	}
	r, err := Parse(s)
	if err != nil && isPath(rest) && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz-") == "" {
		err = noTransport
	}
	return Location{Reference: r}, err
}

func isPath(s string) bool {
	return !strings.HasPrefix(s, "//") && (strings.HasPrefix(s, "/") || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../"))
}

func cutTransport(s string) (Transport, string) {
	if rest, ok := strings.CutPrefix(s, "oci-layout://"); ok {
		return OCILayout, rest
	}
	if rest, ok := strings.CutPrefix(s, "oci-archive:"); ok {
		return OCIArchive, rest
	}
	if rest, ok := strings.CutPrefix(s, "docker-archive:"); ok {
		return DockerArchive, rest
	}
	if rest, ok := strings.CutPrefix(s, "docker-daemon:"); ok {
		return DockerDaemon, rest
	}
	if rest, ok := strings.CutPrefix(s, "oci:"); ok && !isPort(rest) {
		return OCILayout, rest
	}
	return Registry, s
}

// parseDockerArchive cuts at the first colon, since a name has colons of its
// own; that after the letter of a drive is none.
func parseDockerArchive(s, rest string) (Location, error) {
	drive := 0
	if len(rest) > 2 && rest[1] == ':' && strings.ContainsRune(`/\`, rune(rest[2])) {
		drive = 2
	}
	path, name, cut := strings.Cut(rest[drive:], ":")
	path = rest[:drive] + path
	switch {
	case path == "":
		return Location{}, &Error{Name: s, Reason: "path is missing"}
	case cut && name == "":
		return Location{}, &Error{Name: s, Reason: "name after the path is empty"}
	}
	return Location{Transport: DockerArchive, Path: path, Tag: name}, nil
}

func parseDockerDaemon(s, name string) (Location, error) {
	// The digits of an ID are no name to the grammar, and an ID to Docker.
	isID := digest.NewDigestFromEncoded(digest.SHA256, name).Validate() == nil
	if digest.Digest(name).Validate() != nil && !isID {
		if _, err := Parse(name); err != nil {
			return Location{}, &Error{Name: redact.Word(s), Reason: "want the name or the ID of an image: " + err.Error()}
		}
	}
	return Location{Transport: DockerDaemon, Path: name}, nil
}

// isPort reports whether what follows "oci:" makes it a host named oci with a
// port, as in oci:5000/app, which Docker would read as a registry.
func isPort(rest string) bool {
	port, _, ok := strings.Cut(rest, "/")
	if !ok || port == "" {
		return false
	}
	return strings.Trim(port, "0123456789") == ""
}

// splitPath cuts the tag or digest off a path. A colon belongs to the path
// when a separator follows it. It reports whether what was cut off is usable.
func splitPath(s string) (path, tag string, ok bool) {
	if at := strings.LastIndexByte(s, '@'); at > 0 && isDigestLike(s[at+1:]) {
		return s[:at], s[at+1:], digest.Digest(s[at+1:]).Validate() == nil
	}
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || strings.ContainsAny(s[i+1:], `/\`) {
		return s, "", true
	}
	return s[:i], s[i+1:], i+1 < len(s)
}

// isDigestLike reports whether text after an @ is meant as a digest, not as a
// part of a file's name.
func isDigestLike(s string) bool {
	algorithm, _, ok := strings.Cut(s, ":")
	return ok && strings.HasPrefix(algorithm, "sha") && !strings.ContainsAny(s, `/\@`)
}

// String is the spelling that [ParseLocation] reads back.
func (l Location) String() string {
	if l.Transport == Registry {
		return l.Reference.String()
	}
	prefix, mark := string(l.Transport)+":", ":"
	if l.Transport == OCILayout && isPort(l.Path) {
		prefix = "oci-layout://"
	}
	if strings.Contains(l.Tag, ":") && l.Transport != DockerArchive {
		mark = "@"
	}
	if l.Tag == "" {
		return prefix + l.Path
	}
	return prefix + l.Path + mark + l.Tag
}
