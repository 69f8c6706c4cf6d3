// Package report is the language in which working rooms say what they are
// doing, and the sink they say it to.
//
// Libraries never print: they send an [Event] to a [Sink], and the command line
// draws it. A nil Sink is silent, so a zero options struct works. Events carry
// facts (digests, bytes, names), never sentences for the terminal, and never a
// credential.
package report

import (
	"time"

	"github.com/opencontainers/go-digest"
)

// Kind says what an event is about.
type Kind string

// The kinds of events.
const (
	// Resolve: a reference was looked up; Digest is what it named.
	Resolve Kind = "resolve"
	// Blob: a blob is moved to Target (State tells how it went).
	Blob Kind = "blob"
	// Manifest: a manifest is written to Target by digest.
	Manifest Kind = "manifest"
	// ReadBack: content was read again from Target and compared.
	ReadBack Kind = "read back"
	// Tag: a tag was moved; Previous is what it named before.
	Tag Kind = "tag"
	// Restore: a tag was put back to Digest, or removed if that is empty; Previous
	// is what it was taken from.
	Restore Kind = "restore"
	// Remove: something this run had written was removed again.
	Remove Kind = "remove"
	// Build: a platform was built on Node.
	Build Kind = "build"
	// Wait: a host asked to wait, or a retry is due; Delay is how long.
	Wait Kind = "wait"
	// Warning: something the user should know; Text says it.
	Warning Kind = "warning"
)

// State says how far the thing is.
type State string

// The states of an event.
const (
	Started State = "started"
	// Moving reports progress: Bytes of Total.
	Moving State = "moving"
	Done   State = "done"
	// Present: nothing had to be sent, the target has it.
	Present State = "present"
	// Mounted: the registry took it from another repository of its own.
	Mounted State = "mounted"
	Failed  State = "failed"
)

// Event is one fact. Fields that do not apply are zero.
type Event struct {
	Kind     Kind
	State    State
	Time     time.Time
	Target   string // reference, repository or host
	Platform string // os/arch[/variant]
	Node     string
	Digest   digest.Digest
	Previous digest.Digest
	Media    string // media type
	Bytes    int64  // so far, or in all when State is Done
	Total    int64
	Delay    time.Duration
	Text     string // free text of a warning or a cause
	Err      error
}

// Sink receives events. It must be safe for concurrent use and must not block
// for long. A nil Sink drops them.
type Sink func(Event)

// Send delivers e with the present time, if there is a sink.
func (s Sink) Send(e Event) {
	if s == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	s(e)
}

// Warn sends a warning about target.
func (s Sink) Warn(target, text string) {
	s.Send(Event{Kind: Warning, State: Done, Target: target, Text: text})
}
