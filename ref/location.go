package ref

import "strings"

// Transport says where a [Location] is.
type Transport string

// The transports. The zero value is a registry.
const (
	Registry Transport = ""
	// OCILayout is a directory in OCI image layout.
	OCILayout Transport = "oci"
	// OCIArchive is a tar of an OCI image layout.
	OCIArchive Transport = "oci-archive"
)

// Location is a place that an image can be read from: a reference in a
// registry, or an image layout on disk.
type Location struct {
	Transport Transport
	// Reference is set for [Registry].
	Reference Reference
	// Path is the directory or file for the other transports.
	Path string
	// Tag selects one image of a layout by its org.opencontainers.image.ref.name;
	// empty selects the only one.
	Tag string
}

// ParseLocation reads oci:DIR[:TAG], oci-archive:FILE[:TAG], and, for anything
// else, a reference. The spelling of buildx, oci-layout://DIR:TAG, is read too.
// The error is an [*Error].
func ParseLocation(s string) (Location, error) {
	for prefix, transport := range map[string]Transport{
		"oci-layout://": OCILayout,
		"oci-archive:":  OCIArchive,
		"oci:":          OCILayout,
	} {
		rest, ok := strings.CutPrefix(s, prefix)
		if !ok || (transport == OCILayout && isPort(rest)) {
			continue
		}
		path, tag := splitPath(rest)
		if path == "" {
			return Location{}, &Error{Name: s, Reason: "path is missing"}
		}
		return Location{Transport: transport, Path: path, Tag: tag}, nil
	}
	r, err := Parse(s)
	if err != nil {
		return Location{}, err
	}
	return Location{Reference: r}, nil
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

// splitPath cuts the tag off a path. A colon belongs to the path when a
// separator follows it.
func splitPath(s string) (path, tag string) {
	i := strings.LastIndexByte(s, ':')
	if i <= 0 || strings.ContainsAny(s[i+1:], `/\`) {
		return s, ""
	}
	return s[:i], s[i+1:]
}

// String is the spelling that [ParseLocation] reads back.
func (l Location) String() string {
	if l.Transport == Registry {
		return l.Reference.String()
	}
	s := string(l.Transport) + ":" + l.Path
	if l.Tag != "" {
		s += ":" + l.Tag
	}
	return s
}
