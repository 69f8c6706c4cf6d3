package registry

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	"github.com/manifold-oci/manifold/oci"
)

// ErrOnce is the cause when an upload would have to be sent again and its bytes
// came as a stream that cannot be read twice.
var ErrOnce = errors.New("the bytes came once and cannot be sent again")

// Send sends the bytes of one blob, which can be read once. Bytes that end in
// an error give the upload up.
type Send = func(ctx context.Context, body io.Reader) error

// BeginBlob is [Repository.CopyBlob] for bytes that cannot be had a second
// time, in two halves: asking, with the same requests, and sending. A nil Send
// says that there is nothing to send: the outcome is Present or Mounted. A Send
// must be called, if only with a reader that fails, or the session stays open.
//
// Send is one PUT. When its answer is lost, a HEAD tells whether the blob is
// there. It is repeated only as long as nothing of the body was read: after
// that a failure is final, and the caller may begin again.
func (r *Repository) BeginBlob(ctx context.Context, d oci.Descriptor, from []string) (Outcome, Send, error) {
	c := r.on(opCopyBlob, d.Digest.String())
	if err := d.Digest.Validate(); err != nil {
		return "", nil, r.failed(c, err)
	}
	r.scopes().write(from...)
	u := &upload{repo: r, call: c, blob: d}
	u.call.scopes = r.scopes().list(r.ref.Repository, false)
	if r.host.know().blindMount && u.there(ctx) {
		return Present, nil, nil
	}
	outcome, err := u.begin(ctx, from)
	if outcome != "" || err != nil {
		return outcome, nil, err
	}
	if u.askFirst(ctx) {
		u.cancel(ctx)
		return Present, nil, nil
	}
	return Uploaded, u.stream, nil
}

// stream sends a body that comes once into the open session.
func (u *upload) stream(ctx context.Context, body io.Reader) error {
	var spent atomic.Bool
	u.spent = spent.Load
	u.src = &source{ctx: ctx, open: func(context.Context) (io.ReadCloser, error) {
		if spent.Swap(true) {
			return nil, ErrOnce
		}
		return io.NopCloser(body), nil
	}}
	return u.run(ctx)
}
