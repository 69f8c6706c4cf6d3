package buildkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/console"
	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/report"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
)

// walk is one publishing, from the first blob to a tag that fails.
func walk() []report.Event {
	at := time.Unix(1700000000, 0)
	events := []report.Event{
		{Kind: report.Build, State: report.Started, Platform: "linux/amd64", Node: "n1"},
		{Kind: report.Build, State: report.Done, Platform: "linux/amd64", Node: "n1"},
		{Kind: report.Blob, State: report.Present, Target: "r/app", Digest: "sha256:a"},
		{Kind: report.Blob, State: report.Started, Target: "r/app", Digest: "sha256:b", Total: 2000},
		{Kind: report.Blob, State: report.Moving, Target: "r/app", Digest: "sha256:b", Bytes: 1000, Total: 2000},
		{Kind: report.Blob, State: report.Done, Target: "r/app", Digest: "sha256:b", Bytes: 2000},
		{Kind: report.Manifest, State: report.Started, Target: "r/app", Digest: "sha256:m", Platform: "linux/amd64"},
		{Kind: report.Manifest, State: report.Done, Target: "r/app", Digest: "sha256:m", Platform: "linux/amd64"},
		{Kind: report.Manifest, State: report.Present, Target: "r/app", Digest: "sha256:i"},
		{Kind: report.ReadBack, State: report.Done, Target: "r/app", Digest: "sha256:i"},
		{Kind: report.Wait, State: report.Started, Target: "r", Delay: time.Second, Text: "429"},
		{Kind: report.Warning, State: report.Done, Target: "r/app", Text: "referrers are not supported"},
		{Kind: report.Tag, State: report.Started, Target: "r/app:1", Digest: "sha256:i"},
		{Kind: report.Tag, State: report.Done, Target: "r/app:1", Digest: "sha256:i"},
		{Kind: report.Tag, State: report.Failed, Target: "r/app:2", Digest: "sha256:i", Err: errors.New("immutable")},
		{Kind: report.Restore, State: report.Done, Target: "r/app:3", Digest: "sha256:old", Previous: "sha256:i"},
		{Kind: report.Restore, State: report.Done, Target: "r/app:1", Previous: "sha256:i"},
	}
	for i := range events {
		events[i].Time = at.Add(time.Duration(i) * time.Second)
	}
	return events
}

func shown(t *testing.T, mode progressui.DisplayMode, events []report.Event) string {
	t.Helper()
	var out bytes.Buffer
	p, err := NewProgress(context.Background(), &out, mode, "building with 2 nodes")
	if err != nil {
		t.Fatal(err)
	}
	sink := p.Sink()
	for _, e := range events {
		sink.Send(e)
	}
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Which lines the plain display repeats depends on its clock; that each is
// there does not.
func TestPlainProgressShowsTheWholeWalk(t *testing.T) {
	got := shown(t, progressui.PlainMode, walk())
	lines := map[string]bool{}
	for _, line := range strings.Split(got, "\n") {
		lines[regexp.MustCompile(`^#\d+ `).ReplaceAllString(line, "")] = true
	}
	for _, want := range []string{
		"building with 2 nodes",
		"building linux/amd64 on n1", "DONE 1.0s",
		"copying to r/app", "sha256:a already there done", "sha256:b 2.00kB / 2.00kB 2.0s done", "DONE 7.0s",
		"pushing manifest r/app@sha256:m (linux/amd64)",
		"pushing manifest r/app@sha256:i", "CACHED",
		"reading back r/app@sha256:i", "DONE 0.0s",
		"waiting 1s for r: 429",
		"checking r/app", "WARN: r/app: referrers are not supported",
		"moving tag r/app:1 to sha256:i",
		"moving tag r/app:2 to sha256:i", "ERROR: immutable",
		"restoring tag r/app:3 to sha256:old",
		"removing tag r/app:1",
		" 1 warning found:", " - r/app: referrers are not supported",
	} {
		if !lines[want] {
			t.Errorf("no line %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "\x1b") {
		t.Error("control codes without a terminal")
	}
}

func TestRawJSONProgressIsTheSameWalk(t *testing.T) {
	var got []string
	names := map[string]string{}
	dec := json.NewDecoder(strings.NewReader(shown(t, progressui.RawJSONMode, walk())))
	for {
		var s client.SolveStatus
		if err := dec.Decode(&s); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("not one JSON value after the other: %v", err)
		}
		for _, v := range s.Vertexes {
			names[v.Digest.String()] = v.Name
			state := "starts"
			if v.Completed != nil {
				state = "ends"
			}
			got = append(got, strings.TrimSpace(state+" "+v.Name+" "+v.Error))
		}
		for _, b := range s.Statuses {
			got = append(got, "bar "+b.ID+" in "+names[b.Vertex.String()])
		}
		for _, w := range s.Warnings {
			got = append(got, "warns "+string(w.Short))
		}
	}
	want := []string{
		"starts building linux/amd64 on n1", "ends building linux/amd64 on n1",
		"starts copying to r/app",
		"bar sha256:a already there in copying to r/app", "bar sha256:b in copying to r/app",
		"bar sha256:b in copying to r/app", "bar sha256:b in copying to r/app",
		"starts pushing manifest r/app@sha256:m (linux/amd64)", "ends pushing manifest r/app@sha256:m (linux/amd64)",
		"starts pushing manifest r/app@sha256:i", "ends pushing manifest r/app@sha256:i",
		"ends copying to r/app",
		"starts reading back r/app@sha256:i", "ends reading back r/app@sha256:i",
		"starts waiting 1s for r: 429", "ends waiting 1s for r: 429",
		"starts checking r/app", "warns r/app: referrers are not supported", "ends checking r/app",
		"starts moving tag r/app:1 to sha256:i", "ends moving tag r/app:1 to sha256:i",
		"starts moving tag r/app:2 to sha256:i", "ends moving tag r/app:2 to sha256:i immutable",
		"starts restoring tag r/app:3 to sha256:old", "ends restoring tag r/app:3 to sha256:old",
		"starts removing tag r/app:1", "ends removing tag r/app:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestQuietProgressPrintsWarningsAlone(t *testing.T) {
	want := "waiting 1s for r: 429\nwarning: r/app: referrers are not supported\n"
	if got := shown(t, progressui.QuietMode, walk()); got != want {
		t.Errorf("printed %q", got)
	}
}

// Names come from Dockerfiles, answers from registries.
func TestProgressShowsNothingThatATerminalObeys(t *testing.T) {
	evil := "a\x1b]0;evil\ab\u202ec\nd"
	at := time.Unix(1700000000, 0)
	for mode, never := range map[progressui.DisplayMode]string{
		progressui.PlainMode: "\x1b\a\u202e", progressui.QuietMode: "\x1b\a\u202e", progressui.RawJSONMode: "\x1b\a",
	} {
		var out bytes.Buffer
		p, err := NewProgress(context.Background(), &out, mode, "")
		if err != nil {
			t.Fatal(err)
		}
		p.Writer().Write(&client.SolveStatus{
			Vertexes: []*client.Vertex{{Digest: "sha256:v", Name: evil + "name", Started: &at, Completed: &at, Error: evil}},
			Statuses: []*client.VertexStatus{{Vertex: "sha256:v", ID: evil + "bar", Started: &at, Completed: &at, Timestamp: at}},
			Warnings: []*client.VertexWarning{{Vertex: "sha256:v", Short: []byte(evil + "short"), URL: evil}},
		})
		p.Sink().Warn(evil, evil)
		if err := p.Wait(); err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(out.String(), never) {
			t.Errorf("%s: %q", mode, out.String())
		}
		if mode != progressui.QuietMode && !(strings.Contains(out.String(), "dname") && strings.Contains(out.String(), "dbar")) {
			t.Errorf("%s: not shown: %q", mode, out.String())
		}
	}
}

func TestTerminalShowsTheSteps(t *testing.T) {
	pty, name, err := console.NewPty()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer pty.Close()
	tty, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := pty.Resize(console.WinSize{Height: 60, Width: 100}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(pty) // ends with EIO when the other side is closed
		read <- string(b)
	}()
	p, err := NewProgress(context.Background(), tty, progressui.AutoMode, "building")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range walk() {
		p.Sink().Send(e)
	}
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	tty.Close()
	got := <-read
	for _, want := range []string{"\x1b[", "copying to r/app", "moving tag r/app:1 to sha256:i", "1 warning found"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q on the terminal:\n%q", want, got)
		}
	}
}

func TestTTYModeNeedsATerminal(t *testing.T) {
	_, err := NewProgress(context.Background(), io.Discard, progressui.TtyMode, "")
	var usage *UsageError
	if !errors.As(err, &usage) || usage.Flag != "progress" {
		t.Errorf("error is %v", err)
	}
}

func TestLateEventsAreDropped(t *testing.T) {
	p, err := NewProgress(context.Background(), io.Discard, progressui.PlainMode, "")
	if err != nil {
		t.Fatal(err)
	}
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for _, e := range walk() {
				p.Sink().Send(e)
				p.Writer().Write(&client.SolveStatus{})
			}
		})
	}
	if err := errors.Join(p.Wait(), p.Wait()); err != nil {
		t.Error(err)
	}
	senders.Wait()
	p.Sink().Send(walk()[0])
	p.Writer().Write(&client.SolveStatus{})
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space") }

// A full disk behind stderr must neither stop the build nor go unnoticed.
func TestBrokenOutputIsReportedAtTheEnd(t *testing.T) {
	for _, mode := range []progressui.DisplayMode{progressui.PlainMode, progressui.RawJSONMode} {
		p, err := NewProgress(context.Background(), brokenWriter{}, mode, "x")
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range walk() {
			p.Sink().Send(e)
		}
		if err := p.Wait(); err == nil || err.Error() != "progress: no space" {
			t.Errorf("%s: %v", mode, err)
		}
	}
}

func TestCancelledContextStillShowsTheUndoing(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var out bytes.Buffer
	p, err := NewProgress(ctx, &out, progressui.PlainMode, "")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	p.Sink().Send(report.Event{Kind: report.Remove, State: report.Done, Target: "r/app", Digest: "sha256:m"})
	if err := p.Wait(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(out.String(), "removing r/app@sha256:m") {
		t.Errorf("printed %q", out.String())
	}
}

func TestFailedBlobEndsItsStep(t *testing.T) {
	events := []report.Event{
		{Kind: report.Blob, State: report.Started, Target: "r/app", Digest: "sha256:a"},
		{Kind: report.Blob, State: report.Failed, Target: "r/app", Digest: "sha256:a", Err: errors.New("cut")},
		{Kind: report.Blob, State: report.Failed, Target: "r/app", Digest: "sha256:b", Text: "too"},
	}
	got := shown(t, progressui.PlainMode, events)
	if !strings.Contains(got, "ERROR: sha256:a: cut") || strings.Count(got, "ERROR") != 1 {
		t.Errorf("printed\n%s", got)
	}
}

func TestWarningsOfABuildCanBeExpanded(t *testing.T) {
	var out bytes.Buffer
	p, err := NewProgress(t.Context(), &out, progressui.PlainMode, "")
	if err != nil {
		t.Fatal(err)
	}
	p.Writer().Write(&client.SolveStatus{Warnings: []*client.VertexWarning{{Vertex: "sha256:v", Short: []byte("lint"), Detail: [][]byte{[]byte("more")}}}})
	p.Sink().Warn("r/app:1", "r/app:1 names nothing")
	if err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "2 warnings found (use --debug to expand)") || !strings.Contains(got, " - r/app:1 names nothing\n") {
		t.Errorf("shown %s", got)
	}
}
