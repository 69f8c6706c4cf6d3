package buildkit

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/containerd/console"
	"github.com/docker/buildx/util/desktop"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/internal/printable"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/morikuni/aec"
	"github.com/opencontainers/go-digest"
	"github.com/sirupsen/logrus"
)

// Progress shows one run, from the build on the nodes to the last tag, in
// BuildKit's display: tty, plain or rawjson, or not at all.
//
// [Progress.Writer] takes the build's part, [Progress.Sink] that of publishing.
// Both may be used from several goroutines, and do nothing after
// [Progress.Wait].
type Progress struct {
	out     *steadyWriter
	mode    progressui.DisplayMode
	term    bool
	printer *progress.Printer
	events  *eventView

	mu     sync.RWMutex
	closed bool
	once   sync.Once
	err    error
}

// NewProgress starts a display on out. The modes tty and auto find a terminal
// when out is a console file; desc is the line above it all ("building with …").
// An end of ctx does not stop the display, so that what is undone afterwards can
// be seen; [Progress.Wait] does.
func NewProgress(ctx context.Context, out io.Writer, mode progressui.DisplayMode, desc string) (*Progress, error) {
	p := &Progress{mode: mode, out: &steadyWriter{w: out}}
	var display io.Writer = p.out
	if f, ok := out.(console.File); ok {
		if _, err := console.ConsoleFromFile(f); err == nil {
			p.term, display = true, out
		}
	}
	printer, err := progress.NewPrinter(context.WithoutCancel(ctx), display, mode, progress.WithDesc(desc, desc))
	if err != nil {
		return nil, &UsageError{Flag: "progress", Value: string(mode), Reason: err.Error()}
	}
	p.printer = printer
	p.events = newEventView(p.write)
	return p, nil
}

// Writer is where buildx and BuildKit report to.
func (p *Progress) Writer() progress.Writer { return progressWriter{p} }

// ProgressWriter is buildx's, for those who may not know buildx.
type ProgressWriter = progress.Writer

// Prefixed is the writer of one of several builds, whose steps begin with name.
func (p *Progress) Prefixed(name string) ProgressWriter {
	return progress.WithPrefix(p.Writer(), name, true)
}

// Wait ends the display, with the warnings of the build below it, and returns
// the first error of writing to it. Further calls return the same.
func (p *Progress) Wait() error {
	p.once.Do(func() {
		p.events.finish()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.err = p.printer.Wait()
		printWarnings(p.out, p.printer.Warnings(), p.mode, p.term)
		if p.err == nil {
			p.err = p.out.failure()
		}
	})
	return p.err
}

// Warnings are those of the build, each once, complete after [Progress.Wait].
func (p *Progress) Warnings() []client.VertexWarning { return p.printer.Warnings() }

// write drops what comes late: the display is gone, and its channel closed.
func (p *Progress) write(s *client.SolveStatus) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	if !p.closed {
		p.printer.Write(p.showable(s))
	}
}

// printDetails says where Docker Desktop, if there is one, shows the build.
func (p *Progress) printDetails() {
	if p.mode != progressui.RawJSONMode && p.mode != progressui.QuietMode {
		desktop.PrintBuildDetails(p.out, p.printer.BuildRefs(), p.term)
	}
}

// progressWriter is the display as buildx wants it.
type progressWriter struct{ p *Progress }

func (w progressWriter) Write(s *client.SolveStatus)      { w.p.write(s) }
func (w progressWriter) WriteBuildRef(target, ref string) { w.p.printer.WriteBuildRef(target, ref) }
func (w progressWriter) ClearLogSource(v any)             { w.p.printer.ClearLogSource(v) }
func (w progressWriter) ValidateLogSource(d digest.Digest, v any) bool {
	return w.p.printer.ValidateLogSource(d, v)
}

// steadyWriter remembers the first error and swallows the rest: a display that
// cannot be written to must not stop a build half way.
type steadyWriter struct {
	w   io.Writer
	mu  sync.Mutex
	err error
}

func (s *steadyWriter) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		_, s.err = s.w.Write(b)
	}
	return len(b), nil
}

func (s *steadyWriter) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return fmt.Errorf("progress: %w", s.err)
	}
	return nil
}

// printWarnings lists the build's warnings as buildx does, in colour only on a
// terminal; their details with --debug.
func printWarnings(w io.Writer, warnings []client.VertexWarning, mode progressui.DisplayMode, term bool) {
	if len(warnings) == 0 || mode == progressui.QuietMode || mode == progressui.RawJSONMode {
		return
	}
	debug := logrus.GetLevel() >= logrus.DebugLevel
	head := fmt.Sprintf("%d warnings found", len(warnings))
	if len(warnings) == 1 {
		head = "1 warning found"
	}
	if !debug && slices.ContainsFunc(warnings, expands) {
		head += " (use --debug to expand)"
	}
	head += ":\n"
	if term {
		head = aec.Apply(head, aec.YellowF)
	}
	fmt.Fprintf(w, "\n %s", head)
	for _, warning := range warnings {
		fmt.Fprintf(w, " - %s\n", warning.Short)
		if debug {
			printWarning(printable.Writer(w), warning)
		}
	}
}

// expands reports a warning with details, which those of builds have: the other
// commands have no --debug to show them.
func expands(warning client.VertexWarning) bool {
	return len(warning.Detail) > 0 || warning.URL != "" || warning.SourceInfo != nil
}

func printWarning(w io.Writer, warning client.VertexWarning) {
	for _, line := range warning.Detail {
		fmt.Fprintf(w, "%s\n", line)
	}
	if warning.URL != "" {
		fmt.Fprintf(w, "More info: %s\n", warning.URL)
	}
	if warning.SourceInfo != nil && warning.Range != nil {
		src := errdefs.Source{Info: warning.SourceInfo, Ranges: warning.Range}
		// The excerpt is an illustration, and w keeps its errors.
		_ = src.Print(w)
	}
	fmt.Fprintln(w)
}
