package buildkit

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/manifold-oci/manifold/report"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"
)

// Sink shows events of publishing as steps of the display. Blobs are bars below
// one step per repository, "copying to HOST/REPO", which ends when the first
// content is read back or a tag moves; everything else is a short step of its
// own. A failed event ends its step with the error. Where nothing is displayed,
// warnings and waits are lines, see [WarningSink].
func (p *Progress) Sink() report.Sink {
	if p.mode == progressui.QuietMode {
		return WarningSink(p.out)
	}
	return p.events.show
}

// eventView turns events into the vertices that BuildKit's display draws.
type eventView struct {
	write func(*client.SolveStatus)

	mu     sync.Mutex
	count  int
	open   map[string]*client.Vertex        // steps that run, by what they are about
	copies map[string]*client.Vertex        // by target
	bars   map[string]map[string]*time.Time // start of each blob, by target and id
}

func newEventView(write func(*client.SolveStatus)) *eventView {
	return &eventView{
		write:  write,
		open:   map[string]*client.Vertex{},
		copies: map[string]*client.Vertex{},
		bars:   map[string]map[string]*time.Time{},
	}
}

func (v *eventView) show(e report.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	switch e.Kind {
	case report.Blob:
		v.showBlob(e)
	case report.Warning:
		v.showWarning(e)
	case report.ReadBack, report.Tag, report.Restore:
		v.endCopies(e.Time)
		v.showStep(e)
	default:
		v.showStep(e)
	}
}

// finish ends whatever is still shown as running.
func (v *eventView) finish() {
	v.mu.Lock()
	defer v.mu.Unlock()
	now := time.Now()
	v.endCopies(now)
	for key, vertex := range v.open {
		v.end(vertex, now)
		delete(v.open, key)
	}
}

// showStep starts a step with the first event about a thing and ends it with
// the last; the same thing may be done again later, as another step.
func (v *eventView) showStep(e report.Event) {
	key := fmt.Sprintf("%s|%s|%s|%s|%s", e.Kind, e.Target, e.Digest, e.Platform, e.Node)
	if e.Kind == report.Build { // its digest is known only at the end
		key = fmt.Sprintf("%s|%s|%s", e.Kind, e.Platform, e.Node)
	}
	vertex := v.open[key]
	if vertex == nil {
		vertex = v.start(stepName(e), e.Time)
		v.open[key] = vertex
	}
	running := e.State == report.Started || e.State == report.Moving
	if running && e.Kind != report.Wait { // nobody says when a wait is over
		return
	}
	vertex.Cached = e.State == report.Present
	if e.State == report.Failed {
		vertex.Error = failure(e)
	}
	v.end(vertex, e.Time)
	delete(v.open, key)
}

func (v *eventView) showBlob(e report.Event) {
	vertex := v.copies[e.Target]
	if vertex == nil {
		vertex = v.start("copying to "+e.Target, e.Time)
		v.copies[e.Target] = vertex
		v.bars[e.Target] = map[string]*time.Time{}
	}
	v.write(&client.SolveStatus{Statuses: []*client.VertexStatus{v.bar(vertex, e)}})
	if e.State == report.Failed && vertex.Error == "" {
		vertex.Error = fmt.Sprintf("%s: %s", e.Digest, failure(e))
		v.end(vertex, e.Time)
	}
}

// bar is the state of one blob.
func (v *eventView) bar(vertex *client.Vertex, e report.Event) *client.VertexStatus {
	id, started := v.barStart(e)
	s := &client.VertexStatus{
		ID: id, Vertex: vertex.Digest, Current: e.Bytes, Total: e.Total, Timestamp: e.Time, Started: started,
	}
	if e.State != report.Started && e.State != report.Moving {
		at := e.Time
		s.Completed = &at
	}
	switch e.State {
	case report.Done:
		s.Total = max(e.Total, e.Bytes)
		s.Current = s.Total
	case report.Present, report.Mounted: // nothing travelled, so no amount
		s.Total, s.Current = 0, 0
	}
	return s
}

// barStart finds the bar that an event belongs to. What was not transferred
// says so in the name of its bar, since the display has no place for it.
func (v *eventView) barStart(e report.Event) (id string, started *time.Time) {
	bars := v.bars[e.Target]
	id = e.Digest.String()
	if at, ok := bars[id]; ok {
		return id, at
	}
	switch e.State {
	case report.Present:
		id += " already there"
	case report.Mounted:
		id += " mounted"
	}
	at := e.Time
	bars[id] = &at
	return id, &at
}

// showWarning is a step that carries the warning, so that it is shown at once
// and again in the list of warnings at the end.
func (v *eventView) showWarning(e report.Event) {
	name := "checking"
	if e.Target != "" {
		name += " " + e.Target
	}
	vertex := v.start(name, e.Time)
	v.write(&client.SolveStatus{Warnings: []*client.VertexWarning{{
		Vertex: vertex.Digest, Level: 1, Short: []byte(warningText(e)),
	}}})
	v.end(vertex, e.Time)
}

// warningText begins with what it is about: in the list at the end it stands
// without the step.
func warningText(e report.Event) string {
	if e.Target == "" || strings.HasPrefix(e.Text, e.Target) {
		return e.Text
	}
	return e.Target + ": " + e.Text
}

func (v *eventView) start(name string, at time.Time) *client.Vertex {
	v.count++
	vertex := &client.Vertex{
		// Unlike BuildKit's digests this one names no content, it only has to differ.
		Digest:  digest.FromString(fmt.Sprintf("manifold step %d %s", v.count, name)),
		Name:    name,
		Started: &at,
	}
	v.send(vertex)
	return vertex
}

func (v *eventView) end(vertex *client.Vertex, at time.Time) {
	if vertex.Completed == nil {
		vertex.Completed = &at
		v.send(vertex)
	}
}

// send writes a copy: the display keeps what it is given.
func (v *eventView) send(vertex *client.Vertex) {
	c := *vertex
	v.write(&client.SolveStatus{Vertexes: []*client.Vertex{&c}})
}

func (v *eventView) endCopies(at time.Time) {
	for target, vertex := range v.copies {
		v.end(vertex, at)
		delete(v.copies, target)
		delete(v.bars, target)
	}
}

func failure(e report.Event) string {
	switch {
	case e.Err != nil:
		return e.Err.Error()
	case e.Text != "":
		return e.Text
	}
	return "failed"
}
