package cli_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

// faultsTable makes TestFaults run every verb and every peer that is installed,
// and write the table to a file.
var faultsTable = flag.String("faults", "", "write the table of faults to a `file`")

// column is one tool at one registry.
type column struct {
	publisher
	registry string
	start    func(testing.TB, ...registrytest.Option) *registrytest.Registry
	// ours: a fault that is not handled fails the test.
	ours bool
}

func columns() []column {
	three, two := registrytest.Distribution, registrytest.Docker28
	var out []column
	for _, tl := range ours() {
		if *faultsTable == "" && tl.name != "create" {
			continue
		}
		out = append(out, column{tl, "3", three, true}, column{tl, "2.8", two, true})
	}
	if *faultsTable == "" {
		return out
	}
	for _, tl := range peers() {
		out = append(out, column{tl, "3", three, false})
	}
	return out
}

// TestFaults: whatever goes wrong, a publish is whole in the end, or it fails
// and the tag is as it was.
func TestFaults(t *testing.T) {
	all := columns()
	var mu sync.Mutex
	cells := map[string]string{}
	var runs sync.WaitGroup
	slots := make(chan struct{}, 8) // they wait more than they work
	for _, c := range faultCases() {
		if c.slow && *faultsTable == "" {
			continue
		}
		for _, col := range all {
			runs.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				t.Run(c.name+"/"+col.name+" "+col.registry, func(t *testing.T) {
					cell := try(t, c, col)
					mu.Lock()
					defer mu.Unlock()
					cells[c.name+col.name+col.registry] = cell
				})
			})
		}
	}
	runs.Wait()
	if *faultsTable == "" {
		return
	}
	if err := os.WriteFile(*faultsTable, []byte(table(all, cells)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// try runs one tool against one fault and returns the cell of the table.
func try(t *testing.T, c faultCase, col column) string {
	w := newWorld(t, col.start, c)
	if !col.ours {
		if _, err := exec.LookPath(col.args(w)[0][0]); err != nil {
			return "not installed"
		}
	}
	before := w.target.Tags("dst")["tag"].String()
	rules := c.happen(w.source, w.target)
	said, timeout, err := w.run(t, col.publisher)
	wrong := w.judge(c, before, err, timeout)
	if len(rules) > 0 && !slices.ContainsFunc(rules, func(r *registrytest.Rule) bool { return r.Hits() > 0 }) {
		return "–"
	}
	if wrong == "" {
		return "pass"
	}
	if col.ours {
		t.Errorf("%s: %v\n%s\nrequests at the target:\n%s", wrong, err, said, w.target.Transcript())
	}
	return wrong
}

// table is the document.
func table(all []column, cells map[string]string) string {
	var b strings.Builder
	b.WriteString(`# Faults

What happens when something goes wrong while an index of two platforms is published over an older one. Written by ` + "`make faults`" + `,
which brings about each fault by a proxy before a real registry (CNCF Distribution 3; Docker's 2.8 where the column says so) and looks at
the registry afterwards, in one run for all tools, each with its defaults.

"done": the fault passes, so the publish has to succeed, whole. "stops": it cannot be right, so it has to fail, with the tag as it was.
"safe": either. With ` + "`build`" + ` the nodes push their images by themselves, as BuildKit does it, and manifold takes over where that fails; with
` + "`--relay`" + ` everything goes through manifold. A cell is "pass", or what the tool did instead; "–" where the tool makes no such request.

`)
	heads := []string{"fault", "wanted"}
	for _, col := range all {
		name := col.name
		if col.registry == "2.8" || !isPeer(col.name) {
			name = fmt.Sprintf("manifold %s (%s)", col.name, col.registry)
		}
		heads = append(heads, name)
	}
	b.WriteString("| " + strings.Join(heads, " | ") + " |\n|" + strings.Repeat(" --- |", len(heads)) + "\n")
	passed := map[string]int{}
	tried := map[string]int{}
	for _, c := range faultCases() {
		row := []string{c.name, string(c.want)}
		for _, col := range all {
			cell := cells[c.name+col.name+col.registry]
			row = append(row, cell)
			if cell != "–" && cell != "not installed" {
				tried[col.name+col.registry]++
			}
			if cell == "pass" {
				passed[col.name+col.registry]++
			}
		}
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
	}
	sums := []string{"passed of those that happened", ""}
	for _, col := range all {
		sums = append(sums, fmt.Sprintf("%d of %d", passed[col.name+col.registry], tried[col.name+col.registry]))
	}
	b.WriteString("| " + strings.Join(sums, " | ") + " |\n\n")
	b.WriteString(versions(all))
	return b.String()
}

func isPeer(name string) bool {
	return slices.ContainsFunc(peers(), func(p publisher) bool { return p.name == name })
}

// versions names what was run.
func versions(all []column) string {
	out := []string{}
	for _, args := range [][]string{
		{"crane", "version"}, {"regctl", "version", "--format", "{{.VCSTag}}"}, {"oras", "version"}, {"skopeo", "--version"},
		{"go", "list", "-m", "-f", "buildx {{.Version}}", "github.com/docker/buildx"},
	} {
		if b, err := exec.Command(args[0], args[1:]...).Output(); err == nil {
			first, _, _ := strings.Cut(strings.TrimSpace(string(b)), "\n")
			name := strings.TrimSpace(strings.TrimPrefix(first, "Version:"))
			if args[0] == "crane" || args[0] == "regctl" || args[0] == "oras" {
				name = args[0] + " " + name
			}
			out = append(out, name)
		}
	}
	if !slices.ContainsFunc(all, func(c column) bool { return isPeer(c.name) }) {
		return ""
	}
	return "Versions: " + strings.Join(out, "; ") + ".\n"
}
