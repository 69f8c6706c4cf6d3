package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/plan"
	"github.com/opencontainers/go-digest"
)

// Plan writes what a plan will do: what goes to each target, then the tags in
// the order in which they move, then what it costs.
func Plan(w io.Writer, p plan.Plan) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s publishes %s\n", p.Verb, p.Root.Digest)
	for _, t := range targetsOf(p) {
		fmt.Fprintf(&b, "%s: %s to write, %s (%s at the most)\n", t.name, plural(t.manifests, "manifest"), plural(t.blobs, "blob"), Bytes(t.bytes))
	}
	for _, s := range p.TagMoves() {
		fmt.Fprintf(&b, "move %s:%s\n  from %s\n  to   %s\n", s.Target, s.Tag, orNothing(s.Previous), s.Digest)
		if s.Check {
			fmt.Fprintf(&b, "  only if it still names that when its turn comes\n")
		}
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(&b, "warning: %s\n", text)
	}
	if len(p.Steps) == 0 {
		b.WriteString("nothing to do: everything is there\n")
	}
	c := p.Cost()
	fmt.Fprintf(&b, "%s, %s, %s\n", plural(c.Tags, "tag"), plural(c.Requests, "request"), Bytes(c.Bytes))
	return write(w, &b)
}

func orNothing(d digest.Digest) string {
	if d == "" {
		return "nothing"
	}
	return d.String()
}

// planTarget sums up what goes to one target.
type planTarget struct {
	name             string
	manifests, blobs int
	bytes            int64
}

func targetsOf(p plan.Plan) []planTarget {
	var out []planTarget
	at := map[string]int{}
	for _, s := range p.Steps {
		i, ok := at[s.Target]
		if !ok {
			i = len(out)
			at[s.Target] = i
			out = append(out, planTarget{name: s.Target})
		}
		switch s.Op {
		case plan.CopyBlob:
			out[i].blobs++
			out[i].bytes += s.Size
		case plan.PutManifest:
			out[i].manifests++
			out[i].bytes += s.Size
		}
	}
	return out
}

// UnfinishedDocument is one publish that was interrupted, as JSON.
type UnfinishedDocument struct {
	File    string        `json:"file"`
	Started time.Time     `json:"started"`
	Verb    string        `json:"verb"`
	Digest  digest.Digest `json:"digest"`
	Targets []string      `json:"targets"`
	// Done and Steps count the steps of the plan.
	Done  int `json:"done"`
	Steps int `json:"steps"`
}

// NewUnfinished returns the document of each.
func NewUnfinished(all []manifold.Unfinished) []UnfinishedDocument {
	out := make([]UnfinishedDocument, len(all))
	for i, u := range all {
		out[i] = UnfinishedDocument{
			File: u.Path, Started: u.Started, Verb: u.Plan.Verb, Digest: u.Plan.Root.Digest, Done: u.Done, Steps: len(u.Plan.Steps),
		}
		for _, t := range u.Plan.Targets {
			out[i].Targets = append(out[i].Targets, t.Reference)
		}
	}
	return out
}

// Unfinished writes a line per publish that was interrupted.
func Unfinished(w io.Writer, all []manifold.Unfinished) error {
	var b strings.Builder
	for _, d := range NewUnfinished(all) {
		fmt.Fprintf(&b, "%s  %s %s, %d of %d steps, since %s\n",
			d.File, d.Verb, strings.Join(d.Targets, " "), d.Done, d.Steps, d.Started.Format(time.RFC3339))
	}
	return write(w, &b)
}
