// Package plan is what a run is going to write, as data: steps, what each must
// wait for, what must hold before it, and what it costs.
//
// Rooms that decide (publish, repair, prune) return a [Plan]; only apply runs
// one. A plan holds the bytes of every manifest it writes, so that what was
// reviewed is what is sent; blobs are named by digest and by the places where
// they can be had. It holds no credentials. Its JSON reads back to an equal
// plan.
//
// This package refuses a plan that cannot be run, and one whose steps do not
// publish what its targets say: see [Plan.Validate].
//
// Read plan.go first; validate.go looks at each step by itself, site.go and
// relate.go at what the steps of one repository come to, order.go at what waits
// for what; file.go reads and writes plans.
package plan

import (
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// Version of the JSON form. A reader refuses others.
const Version = 1

// Plan is a list of steps towards targets that name Root.
type Plan struct {
	Version int `json:"version"`
	// Verb is the command that asked: "build", "create".
	Verb string `json:"verb"`
	// Targets are the references to publish under, as they were asked for, also
	// those that need no step.
	Targets []Target `json:"targets,omitempty"`
	// Root is what every tag names in the end: the index.
	Root oci.Descriptor `json:"root"`
	// Manifests are the bytes that steps send and read back, Root's among them.
	Manifests []Manifest `json:"manifests"`
	// Held is what targets had when the plan was made, so that it has no step.
	Held  []Held `json:"held,omitempty"`
	Steps []Step `json:"steps"`
	// Warnings are what a reader of the plan should know before it runs, as
	// that a tag will lose platforms.
	Warnings []string `json:"warnings,omitempty"`
}

// Manifest is a manifest or index with its bytes.
type Manifest struct {
	MediaType string        `json:"mediaType"`
	Digest    digest.Digest `json:"digest"`
	Bytes     []byte        `json:"bytes"`
}

// Blob returns the manifest as content.
func (m Manifest) Blob() oci.Blob {
	return oci.Blob{Bytes: m.Bytes, Descriptor: oci.Descriptor{
		MediaType: m.MediaType, Digest: m.Digest, Size: int64(len(m.Bytes)),
	}}
}

// Target is a reference and what it shall name.
type Target struct {
	Reference string        `json:"reference"`
	Digest    digest.Digest `json:"digest"`
}

// Held is what one target had when the plan was made.
type Held struct {
	// Target is a repository with its host, as a step has it.
	Target string `json:"target"`
	// Tags named already what they shall name: they do not move.
	Tags []string `json:"tags,omitempty"`
	// Manifests were read there, or found there, so that they are not read back.
	Manifests []digest.Digest `json:"manifests,omitempty"`
	// Whole are roots below which nothing was looked at: only they themselves
	// are published.
	Whole []digest.Digest `json:"whole,omitempty"`
}

// Op is what a step does.
type Op string

// The operations, in the order in which a publish runs them.
const (
	// CopyBlob makes a blob exist in Target: mounted from one of From when that
	// is a repository on Target's host, else uploaded from one of From.
	CopyBlob Op = "copy blob"
	// PutManifest writes a manifest or index by digest, untagged.
	PutManifest Op = "put manifest"
	// ReadBack fetches a manifest by digest from Target and compares bytes.
	ReadBack Op = "read back"
	// MoveTag checks the step's preconditions and writes Tag, once.
	MoveTag Op = "move tag"
	// ConfirmTag reads Tag again and compares it with Digest.
	ConfirmTag Op = "confirm tag"
	// Confirm reads a manifest again by digest after the tags have moved, and
	// puts back what a tag move made vanish (zot drops children).
	Confirm Op = "confirm"
)

// Step is one thing to do.
type Step struct {
	// ID is unique in the plan.
	ID string `json:"id"`
	Op Op     `json:"op"`
	// Target is a repository with its host: "ghcr.io/team/app".
	Target string `json:"target"`
	// Digest of the blob, manifest, or of what the tag shall name.
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType,omitempty"`
	// Size of the content in bytes.
	Size int64 `json:"size"`
	// From are the places that have a blob, best first: repositories with
	// host, or other locations as package ref writes them.
	From []string `json:"from,omitempty"`
	// Tag is the tag to move or to confirm.
	Tag string `json:"tag,omitempty"`
	// Previous is what the tag named when the plan was made, empty for nothing.
	// A tag that names neither it nor Digest after the move is a lost race.
	Previous digest.Digest `json:"previous,omitempty"`
	// Check is the precondition of a move: the tag is read once more just before
	// it is written, and left alone unless it still names Previous. On a
	// confirmation it leaves time for another writer to be seen.
	Check bool `json:"check,omitempty"`
	// After are the IDs of the steps that must be done first.
	After []string `json:"after,omitempty"`
}

// Error reports a plan that cannot be run, or that does not publish what it
// says.
type Error struct {
	Step   string // ID, empty for the plan as a whole
	Reason string
}

func (e *Error) Error() string {
	if e.Step == "" {
		return "plan: " + e.Reason
	}
	return fmt.Sprintf("plan: step %s: %s", e.Step, e.Reason)
}

// Manifest returns the manifest of a digest.
func (p Plan) Manifest(d digest.Digest) (oci.Blob, bool) {
	for _, m := range p.Manifests {
		if m.Digest == d {
			return m.Blob(), true
		}
	}
	return oci.Blob{}, false
}

// Cost is what a plan will ask of registries.
type Cost struct {
	// Requests is the number when every answer is the expected one, without
	// those for authentication: two for a blob that is uploaded, one for one
	// that is mounted, one for every other step, and one for each precondition.
	Requests int `json:"requests"`
	// Bytes is the content sent at the most: blobs that turn out to be there
	// already are counted.
	Bytes int64 `json:"bytes"`
	// Tags is the number of tags that move.
	Tags int `json:"tags"`
}

// Cost sums up the steps.
func (p Plan) Cost() Cost {
	var c Cost
	for _, s := range p.Steps {
		c.Requests++
		switch s.Op {
		case CopyBlob:
			c.Requests++
			c.Bytes += s.Size
		case PutManifest:
			c.Bytes += s.Size
		case MoveTag:
			c.Tags++
			c.Bytes += s.Size
			if s.Check {
				c.Requests++ // the look before it
			}
		}
	}
	return c
}

// TagMoves returns the steps that move a tag, in order.
func (p Plan) TagMoves() []Step {
	var out []Step
	for _, s := range p.Steps {
		if s.Op == MoveTag {
			out = append(out, s)
		}
	}
	return out
}

// Kept returns the tags that named what they shall when the plan was made, as
// steps that confirm them: Previous is Digest.
func (p Plan) Kept() []Step {
	var out []Step
	for _, h := range p.Held {
		for _, tag := range h.Tags {
			if d := p.tagged(h.Target, tag); d != "" {
				out = append(out, Step{Op: ConfirmTag, Target: h.Target, Tag: tag, Digest: d, Previous: d})
			}
		}
	}
	return out
}

// tagged is what a tag shall name, empty for one that is no target.
func (p Plan) tagged(repository, tag string) digest.Digest {
	for _, t := range p.Targets {
		if r, err := ref.ParseTarget(t.Reference); err == nil && r.Name() == repository && r.Tag == tag {
			return t.Digest
		}
	}
	return ""
}

// Split divides a plan in two: the steps that are to be done first, and the
// rest, which no longer wait for those. A step that is to be first must not wait
// for one that is not.
func (p Plan) Split(first func(Step) bool) (now, later Plan) {
	now, later = p, p
	now.Steps, later.Steps = nil, nil
	done := map[string]bool{}
	for _, s := range p.Steps {
		if first(s) {
			done[s.ID] = true
			now.Steps = append(now.Steps, s)
			continue
		}
		s.After = slices.DeleteFunc(slices.Clone(s.After), func(id string) bool { return done[id] })
		later.Steps = append(later.Steps, s)
	}
	return now, later
}

// WithSources returns the plan with the sources that another one has for the
// same blobs before its own.
func (p Plan) WithSources(other Plan) Plan {
	from := map[string][]string{}
	key := func(s Step) string { return s.Target + "@" + s.Digest.String() }
	for _, s := range other.Steps {
		if s.Op == CopyBlob {
			from[key(s)] = s.From
		}
	}
	p.Steps = slices.Clone(p.Steps)
	for i, s := range p.Steps {
		if s.Op != CopyBlob {
			continue
		}
		all := slices.Clone(from[key(s)])
		for _, place := range s.From {
			if !slices.Contains(all, place) {
				all = append(all, place)
			}
		}
		p.Steps[i].From = all
	}
	return p
}
