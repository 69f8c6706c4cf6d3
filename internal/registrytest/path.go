package registrytest

import "regexp"

// path is what a request of the distribution API is about.
type path struct {
	repo string
	// kind is "manifests", "blobs", "uploads", "tags", "referrers" or "".
	kind string
	// ref is the tag, digest or upload.
	ref string
}

var pathRE = regexp.MustCompile(`^/v2/(.+)/(manifests|blobs/uploads|blobs|tags|referrers)/([^/]*)$`)

func parsePath(p string) path {
	m := pathRE.FindStringSubmatch(p)
	if m == nil {
		return path{}
	}
	kind := m[2]
	if kind == "blobs/uploads" {
		kind = "uploads"
	}
	return path{repo: m[1], kind: kind, ref: m[3]}
}
