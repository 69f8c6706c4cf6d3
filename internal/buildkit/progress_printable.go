package buildkit

import (
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/printable"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
)

// showable is what the display may show of a step: nothing secret, and nothing
// that a terminal would obey. JSON has its own way to write that.
func (p *Progress) showable(s *client.SolveStatus) *client.SolveStatus {
	out := withoutSecrets(s)
	if p.mode != progressui.RawJSONMode {
		makePrintable(out)
	}
	return out
}

// makePrintable changes a status whose vertexes are its own. Names come out of
// Dockerfiles. What a step itself prints is left as it is, as colours are meant.
func makePrintable(s *client.SolveStatus) {
	for _, v := range s.Vertexes {
		v.Name, v.Error = oneLine(v.Name), printable.Text(v.Error)
	}
	s.Statuses, s.Warnings = slices.Clone(s.Statuses), slices.Clone(s.Warnings)
	for i, v := range s.Statuses {
		shown := *v
		shown.ID, shown.Name = oneLine(v.ID), oneLine(v.Name)
		s.Statuses[i] = &shown
	}
	for i, w := range s.Warnings {
		shown := *w
		shown.Short, shown.URL = []byte(printable.Text(string(w.Short))), printable.Line(w.URL)
		s.Warnings[i] = &shown
	}
}

// oneLine has blanks for tabs, which commands are laid out with.
func oneLine(s string) string { return printable.Line(strings.ReplaceAll(s, "\t", " ")) }
