package httpchain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// IdleError reports a request on which nothing moved for too long.
type IdleError struct {
	Host  string
	After time.Duration
}

func (e *IdleError) Error() string {
	return fmt.Sprintf("%s: no byte in either direction for %s", e.Host, e.After)
}

// Timeout makes it a net.Error for those who ask.
func (e *IdleError) Timeout() bool { return true }

// idle ends requests on which nothing moves. It watches bodies both ways: a
// response header timeout alone leaves a download that stalls halfway hanging
// for ever.
type idle struct {
	next  http.RoundTripper
	after time.Duration
}

func (t *idle) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(req.Context())
	w := &watch{ctx: ctx, cancel: cancel, after: t.after}
	w.timer = time.AfterFunc(t.after, func() { cancel(&IdleError{Host: req.URL.Host, After: t.after}) })
	resp, err := t.next.RoundTrip(withBody(req.WithContext(ctx), func(b io.ReadCloser) io.ReadCloser {
		return &watched{ReadCloser: b, w: w}
	}))
	if err != nil {
		err = w.explain(err)
		w.stop()
		return nil, err
	}
	if bodiless(req, resp) {
		w.stop()
		return resp, nil
	}
	resp.Body = &watched{ReadCloser: resp.Body, w: w, last: true}
	return resp, nil
}

// watch is the timer of one request.
type watch struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	timer  *time.Timer
	after  time.Duration
}

func (w *watch) moved() { w.timer.Reset(w.after) }

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
	// last is set on the answer, with which the request ends.
	last bool
}

func (b *watched) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n > 0 {
		b.w.moved()
	}
	if err != nil && err != io.EOF {
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
