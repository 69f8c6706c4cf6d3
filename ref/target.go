package ref

import "strings"

// AsReference returns the reference that plans and receipts know a place by,
// where content is to be written: that of a registry as it is; for a layout the
// transport stands for the host and the path, which must be absolute, for the
// repository, so that the reference is spelled like the location:
// oci:/srv/images:tag. [Reference.AsLocation] is its inverse.
func (l Location) AsReference() Reference {
	if l.Transport == Registry {
		return l.Reference
	}
	return Reference{Host: string(l.Transport) + ":", Repository: strings.TrimPrefix(l.Path, "/"), Tag: l.Tag}
}

// AsLocation returns the place that a reference of a plan names.
func (r Reference) AsLocation() Location {
	transport, local := strings.CutSuffix(r.Host, ":")
	if !local {
		return Location{Reference: r}
	}
	return Location{Transport: Transport(transport), Path: "/" + r.Repository, Tag: r.Tag}
}

// ParseTarget reads the text of a reference of a plan. The error is an [*Error].
func ParseTarget(s string) (Reference, error) {
	l, err := ParseLocation(s)
	return l.AsReference(), err
}
