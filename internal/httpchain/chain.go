// Package httpchain is what every request to a registry passes through, as
// round-trippers, one per file.
//
// In order, outermost first: plain (refuses plain HTTP to hosts that are not
// meant to have it), challenges (one readable WWW-Authenticate line), retry
// (waits as told, and only repeats what can be repeated; once after silence),
// limit and rate (per host), count, log, idle, transport. Authentication sits above all of them, in
// package registry, because it may add requests of its own and everything here
// is meant for those too. Retry is outside limit so that a request that waits
// holds no slot; count and log are innermost so that they see what really went
// over the wire.
//
// It refuses: plain HTTP to a host that is neither loopback nor listed
// ([PlainHTTPError]), addresses that are not HTTP ([SchemeError]) and waits
// beyond the budget ([WaitError]). It knows
// nothing of registries beyond the shape of their paths, which is what requests
// are counted by.
//
// Read chain.go first, then retry.go.
package httpchain

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"github.com/manifold-oci/manifold/report"
)

// Defaults of [Options].
const (
	// DefaultConcurrent is what a host is trusted with once it has answered
	// well; between the pushes of containerd (32) and of crane (16).
	DefaultConcurrent = 24
	// FirstConcurrent is what a host gets before anything is known about it:
	// less than other clients open at once (crane 16, containerd 32), and enough
	// that a copy does not spend its first round trips growing. Each good answer
	// gives one more.
	FirstConcurrent = 10
	// DefaultMaxWait is longer than the windows of rate limits that are meant
	// for bursts, and shorter than those that are meant for the day.
	DefaultMaxWait = 2 * time.Minute
	// DefaultIdle is longer than a registry takes to commit a large blob to
	// object storage.
	DefaultIdle = 5 * time.Minute
	// maxAnswer bounds the idle time of a request that gives a host little to do,
	// as to look something up.
	maxAnswer = time.Minute
	// DefaultAttempts counts the first one.
	DefaultAttempts = 5
)

// Options of a chain. The zero value works.
type Options struct {
	// Transport sends the requests; nil is a clone of http.DefaultTransport.
	Transport http.RoundTripper
	// Insecure are hosts whose certificate is not verified; it has no effect on
	// a Transport that is not an *http.Transport.
	Insecure []string
	// PlainHTTP are the hosts, besides loopback, that may be spoken to in plain
	// HTTP.
	PlainHTTP []string
	// MaxConcurrent bounds the requests under way per host.
	MaxConcurrent int
	// MaxRate bounds the requests begun per second and host; 0 is no bound, and
	// less than one an hour means that.
	MaxRate float64
	// TLS returns what a host wants of TLS besides the defaults; a nil config is
	// the default. It has no effect on a Transport that is not an
	// *http.Transport.
	TLS func(host string) (*tls.Config, error)
	// MaxWait bounds what one request waits in all before it gives up.
	MaxWait time.Duration
	// Attempts bounds how often a request is sent.
	Attempts int
	// Idle bounds how long a request may go without a byte in either direction;
	// less than 0 is no bound. It is a minute at the most for a request that hands
	// over no content and reads no blob. A request that went
	// unanswered is repeated once, and not at all while its host has left a
	// repeated one unanswered and said nothing since.
	Idle  time.Duration
	Clock Clock
	// Report gets report.Wait events.
	Report report.Sink
	// Log gets one line per attempt at debug level.
	Log *slog.Logger
	// OnRequest is called once per attempt, when its answer's header has come
	// or it has failed. It must be safe for concurrent use.
	OnRequest func(Record)
}

// Chain is the assembled round-tripper, with what it counted.
type Chain struct {
	http.RoundTripper
	Counter *Counter
	// Clock is the one that the chain waits by.
	Clock Clock
}

// New assembles a chain.
func New(o Options) *Chain {
	o = o.withDefaults()
	counter := &Counter{}
	var rt http.RoundTripper = newTransports(o.Transport, o.Insecure, o.TLS)
	if o.Idle > 0 {
		rt = &idle{next: rt, after: o.Idle}
	}
	rt = logged(rt, o.Log, o.Clock)
	rt = &counting{next: rt, counter: counter, hook: o.OnRequest}
	rt = rated(rt, o.MaxRate, o.Clock)
	rt = &limiting{next: rt, limits: limits{max: o.MaxConcurrent}}
	rt = &retrying{next: rt, attempts: o.Attempts, budget: o.MaxWait, clock: o.Clock, report: o.Report}
	rt = &challenges{next: rt}
	rt = &plain{next: rt, hosts: o.PlainHTTP}
	return &Chain{RoundTripper: rt, Counter: counter, Clock: o.Clock}
}

func (o Options) withDefaults() Options {
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = DefaultConcurrent
	}
	if o.MaxWait <= 0 {
		o.MaxWait = DefaultMaxWait
	}
	if o.Attempts <= 0 {
		o.Attempts = DefaultAttempts
	}
	if o.Idle == 0 {
		o.Idle = DefaultIdle
	}
	o.Clock = o.Clock.withDefaults()
	return o
}
