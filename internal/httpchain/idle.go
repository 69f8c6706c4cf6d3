package httpchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// IdleError reports a request on which nothing moved for too long.
type IdleError struct {
	Host  string
	After time.Duration
	// During is what the request was at, and how far it had come: "waiting for
	// an answer", "sending, 3000 bytes are gone".
	During string
}

func (e *IdleError) Error() string {
	return fmt.Sprintf("%s: nothing moved for %s: %s", e.Host, e.After, e.During)
}

// Timeout makes it a net.Error for those who ask.
func (e *IdleError) Timeout() bool { return true }

// idle ends requests on which nothing moves. It watches bodies both ways: a
// response header timeout alone leaves a download that stalls halfway hanging
// for ever. Time in which the caller gives no bytes, or takes none, is not the
// host's and does not count.
type idle struct {
	next  http.RoundTripper
	after time.Duration
}

func (t *idle) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{ctx: ctx, cancel: cancel, after: t.patience(req), host: req.URL.Host}
	if bodyOf(req) {
		w.at = sending
	}
	w.timer = time.AfterFunc(w.after, w.fire)
	resp, err := t.next.RoundTrip(withBody(req.WithContext(ctx), func(b io.ReadCloser) io.ReadCloser {
		return &watched{ReadCloser: b, w: w, here: sending, then: waiting}
	}))
	if err != nil {
		err = w.explain(err)
		w.stop()
		t.forget(err)
		return nil, err
	}
	if bodiless(req, resp) {
		w.stop()
		return resp, nil
	}
	w.timer.Stop()
	resp.Body = &watched{ReadCloser: resp.Body, w: w, here: receiving, then: receiving, last: true}
	return resp, nil
}

// patience is how long nothing may move. What needs long is to take a blob in,
// with or without a body that ends it, and to fetch one that a host passes on.
func (t *idle) patience(req *http.Request) time.Duration {
	kind := kindOf(asked(req))
	switch {
	case bodyOf(req) && kind != KindToken, req.Method == http.MethodPut, req.Method == http.MethodPatch,
		req.Method == http.MethodGet && kind == KindBlobs:
		return t.after
	}
	return min(t.after, maxAnswer)
}

// asked is the request that redirects have led to this one: the path of a
// storage host does not tell what is read there.
func asked(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// forget closes connections that nobody uses after one of them has proved dead:
// the others may be so too, and a request is not repeated often enough to try all.
func (t *idle) forget(err error) {
	var silent *IdleError
	pool, ok := t.next.(interface{ CloseIdleConnections() })
	if ok && errors.As(err, &silent) {
		pool.CloseIdleConnections()
	}
}

func bodyOf(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// stage is what a request is at.
type stage int

const (
	waiting   stage = iota // for the answer
	sending                // its body
	receiving              // the body of its answer
)

// watch is the timer of one request.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
	host   string

	mu sync.Mutex // guards what follows
	at stage
	n  int64 // bytes of the stage
}

// moved notes bytes that went on in a stage.
func (w *watch) moved(at stage, n int) {
	w.mu.Lock()
	if w.at != at {
		w.at, w.n = at, 0
	}
	w.n += int64(n)
	w.mu.Unlock()
	if w.ctx.Err() == nil {
		w.timer.Reset(w.after)
	}
}

func (w *watch) fire() {
	w.cancel(&IdleError{Host: w.host, After: w.after, During: w.during()})
}

func (w *watch) during() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.at == receiving:
		return fmt.Sprintf("reading the answer, %d bytes have come", w.n)
	case w.at == sending:
		return fmt.Sprintf("sending, %d bytes are gone", w.n)
	}
	return "waiting for an answer"
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain replaces the cancellation that the timer caused by its reason.
func (w *watch) explain(err error) error {
	var idle *IdleError
	if errors.As(context.Cause(w.ctx), &idle) {
		return idle
	}
	return err
}

// watched is a body that keeps the timer from firing while it is read.
type watched struct {
	io.ReadCloser
	w *watch
	// here is the stage while it is read, then the one at its end.
	here, then stage
	// last is set on the answer, with which the request ends.
	last bool
}

// Read stops the timer while it is the caller's turn: it runs between the reads
// of a request's body, and during those of an answer's.
func (b *watched) Read(p []byte) (int, error) {
	if b.last {
		b.w.moved(receiving, 0)
		defer b.w.timer.Stop()
	} else {
		b.w.timer.Stop()
	}
	n, err := b.ReadCloser.Read(p)
	b.w.moved(b.here, n)
	switch {
	case err == io.EOF && b.here != b.then:
		b.w.moved(b.then, 0)
	case err != nil && err != io.EOF:
		err = b.w.explain(err)
	}
	return n, err
}

func (b *watched) Close() error {
	if b.last {
		defer b.w.stop()
	}
	return b.ReadCloser.Close()
}
