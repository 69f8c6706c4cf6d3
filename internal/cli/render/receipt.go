package render

import (
	"fmt"
	"io"
	"strings"

	"github.com/manifold-oci/manifold"
)

// Receipt writes what a publish did: the digest of the index on the last line,
// so that a script can take it, and before it a line per platform and per tag.
func Receipt(w io.Writer, r manifold.Receipt) error {
	var b strings.Builder
	for _, p := range r.Platforms {
		fmt.Fprintf(&b, "%-24s %s%s%s\n", Line(p.Platform), p.Digest, size(p), from(p))
	}
	tags(&b, r)
	leftovers(&b, r)
	if r.Unchanged {
		b.WriteString("unchanged: everything was there\n")
	}
	fmt.Fprintln(&b, r.Digest)
	return write(w, &b)
}

// size is what an image weighs, empty when only its manifest is known.
func size(p manifold.PlatformReceipt) string {
	if p.ContentSize == 0 {
		return ""
	}
	return "  " + Bytes(p.Size+p.ContentSize)
}

func from(p manifold.PlatformReceipt) string {
	switch {
	case p.Node != "":
		return "  on " + p.Node
	case p.Source != "":
		return "  from " + p.Source
	}
	return ""
}

func tags(b *strings.Builder, r manifold.Receipt) {
	for _, t := range r.Tags {
		fmt.Fprintf(b, "%-24s %s", t.Fate, t.Reference)
		switch {
		case t.Found != "":
			fmt.Fprintf(b, "  (names %s)", t.Found)
		case t.Previous != "" && t.Previous != t.Digest:
			fmt.Fprintf(b, "  (was %s)", t.Previous)
		}
		b.WriteByte('\n')
	}
}

// Fates writes what became of each tag, and what was written, after a publish
// that failed.
func Fates(w io.Writer, r manifold.Receipt) {
	var b strings.Builder
	tags(&b, r)
	for _, name := range r.Removed {
		fmt.Fprintf(&b, "removed      %s\n", name)
	}
	for _, l := range r.Left {
		fmt.Fprintf(&b, "left behind  %s  (%s)\n", l.Reference, l.Reason)
	}
	leftovers(&b, r)
	_ = write(w, &b)
}

// leftovers names what nodes have pushed. Nobody has looked at every tag of the
// repository, so it may not read as an invitation to delete.
func leftovers(b *strings.Builder, r manifold.Receipt) {
	for _, name := range r.Leftovers {
		fmt.Fprintf(b, "left behind  %s  (not under a tag of this build; another may use it)\n", name)
	}
}
