package plan

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/opencontainers/go-digest"
)

// maxFile bounds what is read of a plan in bytes: a thousand manifests of the
// largest size that registries take would not fit, real plans are a few
// kilobytes per platform.
const maxFile = 256 << 20

// Write writes the plan as one JSON document that [Read] reads back.
func (p Plan) Write(w io.Writer) error {
	return json.MarshalWrite(w, p, jsontext.WithIndent("  "), json.Deterministic(true))
}

// WriteLine is Write without line breaks inside.
func (p Plan) WriteLine(w io.Writer) error {
	return json.MarshalWrite(w, p, json.Deterministic(true))
}

// Checked returns the plan with the precondition on every tag that it still
// names what it named when the plan was made.
func (p Plan) Checked() Plan {
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		p.Steps[i].Check = s.Check || s.Op == MoveTag || s.Op == ConfirmTag
	}
	return p
}

// Read reads one plan, strictly: a member that this version does not know is an
// error, since it may be a precondition. The plan has been validated; errors of
// that are [*Error].
func Read(r io.Reader) (Plan, error) {
	var p Plan
	limited := &io.LimitedReader{R: r, N: maxFile + 1}
	err := json.UnmarshalRead(limited, &p, json.RejectUnknownMembers(true))
	switch {
	case limited.N <= 0:
		return Plan{}, fmt.Errorf("plan: larger than %d bytes", int64(maxFile))
	case err != nil:
		return Plan{}, fmt.Errorf("is not a plan: %w", inDocument(err))
	}
	return p, p.Validate()
}

// inDocument says where in a document something is wrong, without the types that
// it was to become.
func inDocument(err error) error {
	var e *json.SemanticError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Err != nil && e.JSONPointer != "":
		return fmt.Errorf("%s: %w", e.JSONPointer, e.Err)
	case e.Err != nil:
		return e.Err
	}
	return fmt.Errorf("%s: a JSON %s is not expected here", cmp.Or(string(e.JSONPointer), "/"), e.JSONKind)
}

// Key names what the plan publishes and where to, whatever the targets hold
// when it is made: plans for the same content under the same references have the
// same key.
func (p Plan) Key() digest.Digest {
	lines := make([]string, len(p.Targets))
	for i, t := range p.Targets {
		lines[i] = t.Reference + " " + t.Digest.String()
	}
	slices.Sort(lines)
	return digest.FromString(p.Root.Digest.String() + "\n" + strings.Join(lines, "\n"))
}
