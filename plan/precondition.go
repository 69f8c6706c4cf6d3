package plan

import (
	"fmt"

	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// PreconditionError reports a tag that does not name what it must name before
// it may move. It was left as it is.
type PreconditionError struct {
	Tag ref.Reference
	// Expected and Found are empty for "there is no such tag".
	Expected, Found digest.Digest
	// Moved says that the tag did name what was expected when it was looked at
	// before: somebody else has moved it since.
	Moved bool
}

func (e *PreconditionError) Error() string {
	return fmt.Sprintf("%s: expected %s, found %s", e.Tag, orNone(e.Expected), orNone(e.Found))
}

func orNone(d digest.Digest) string {
	if d == "" {
		return "no such tag"
	}
	return d.String()
}
