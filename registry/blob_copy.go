package registry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/manifold-oci/manifold/internal/httpchain"
	"github.com/manifold-oci/manifold/oci"
)

// Outcome says how a blob came to be in a repository.
type Outcome string

// The outcomes of [Repository.CopyBlob].
const (
	// Present: it was there.
	Present Outcome = "present"
	// Mounted: the registry took it from another of its repositories.
	Mounted Outcome = "mounted"
	// Uploaded: its bytes were sent.
	Uploaded Outcome = "uploaded"
)

const (
	// sessions bounds how many upload sessions are opened for one blob. Behind a
	// load balancer without shared state some are lost.
	sessions = 4
	// cheaperToAsk is the size in bytes from which a HEAD is worth it before an
	// upload that may be for nothing.
	cheaperToAsk = 16 << 20
	// cancelTime bounds the clean-up after the caller has gone.
	cancelTime = 5 * time.Second
)

// ErrSessionLost is the cause when a registry keeps forgetting the upload
// sessions that it opens.
var ErrSessionLost = errors.New("upload sessions are not known to the registry that opened them: replicas without shared storage or with different http.secret?")

// CopyBlob makes a blob be in the repository. from are repositories of the same
// host (paths, without the host) that have it. open opens its bytes, anew for
// every attempt; its context marks what it reads as feeding this upload.
//
// One POST that asks for a mount, from the first of from, or from the repository
// itself when there is none: 201 and it is done. Else the same POST has opened
// the session for one PUT. Where mounting is refused, a POST without it comes in
// between. When the answer to the PUT is lost, a HEAD tells whether the blob is
// there; what the session still holds of a broken PUT is not sent again. An
// abandoned session is cancelled. With Options.ChunkSize a larger blob goes by
// one PATCH per piece, the last one by the PUT.
func (r *Repository) CopyBlob(ctx context.Context, d oci.Descriptor, from []string, open func(context.Context) (io.ReadCloser, error)) (Outcome, error) {
	c := r.on(opCopyBlob, d.Digest.String())
	if err := d.Digest.Validate(); err != nil {
		return "", r.failed(c, err)
	}
	r.scopes().write(from...)
	u := &upload{repo: r, call: c, blob: d, src: &source{ctx: httpchain.Feeding(ctx), open: open}}
	u.call.scopes = r.scopes().list(r.ref.Repository, false)
	if r.host.know().blindMount && u.there(ctx) {
		return Present, nil
	}
	outcome, err := u.begin(ctx, from)
	if outcome != "" || err != nil {
		return outcome, err
	}
	if u.askFirst(ctx) {
		u.cancel(ctx)
		return Present, nil
	}
	if err := u.run(ctx); err != nil {
		return "", err
	}
	return Uploaded, nil
}

// upload is one blob on its way.
type upload struct {
	repo *Repository
	call call
	blob oci.Descriptor
	src  *source
	// spent is whether the bytes were used up; nil when they can be had again.
	spent func() bool
	// at is the session's last Location, nil when there is no session.
	at *url.URL
	// sent is how much of the blob the session holds.
	sent int64
	// least is the smallest piece that the session takes, 0 when it does not say.
	least int64
}

// begin opens a session by asking for a mount, or learns that none is needed.
func (u *upload) begin(ctx context.Context, from []string) (Outcome, error) {
	for _, source := range u.candidates(from) {
		outcome, done, err := u.mount(ctx, source)
		if done || err != nil {
			return outcome, err
		}
	}
	return "", u.session(ctx)
}

// candidates are the repositories to ask a mount from.
func (u *upload) candidates(from []string) []string {
	own, scopes := u.repo.ref.Repository, u.repo.scopes()
	if len(from) == 0 {
		from = []string{own}
	}
	var out []string
	for _, f := range from {
		blind := f == own && u.repo.host.know().blindMount
		if !blind && !scopes.isRefused(f) {
			out = append(out, f)
		}
	}
	return out
}

// mount asks for one mount. done is true when there is nothing to ask any more:
// it was mounted, or a session is open.
func (u *upload) mount(ctx context.Context, from string) (outcome Outcome, done bool, err error) {
	c := u.call
	c.method, c.path = http.MethodPost, "blobs/uploads/"
	c.query = url.Values{"mount": {u.blob.Digest.String()}, "from": {from}}.Encode()
	resp, err := u.repo.send(ctx, c)
	if err != nil {
		return "", false, u.mountRefused(from, err)
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		drop(resp)
		if from == u.repo.ref.Repository {
			return Present, true, nil
		}
		return Mounted, true, nil
	case http.StatusAccepted:
		return "", true, u.follow(resp)
	}
	return "", false, u.mountRefused(from, u.repo.refused(c, resp))
}

// mountRefused swallows the refusals after which a plain upload may still do:
// 401, 403 and 405 are about the source, so no further blob is mounted from it.
func (u *upload) mountRefused(from string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	var issuer *tokenError
	switch {
	case e.Status == http.StatusNotFound:
		return nil
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Status == http.StatusMethodNotAllowed,
		errors.As(err, &issuer) && e.Status < http.StatusInternalServerError:
		u.repo.scopes().refuse(from)
		u.call.scopes = u.repo.scopes().list(u.repo.ref.Repository, false)
		return nil
	}
	return err
}

// session opens a session.
func (u *upload) session(ctx context.Context) error {
	u.at, u.sent = nil, 0
	c := u.call
	c.method, c.path = http.MethodPost, "blobs/uploads/"
	resp, err := u.repo.do(ctx, c, http.StatusAccepted)
	if err != nil {
		return err
	}
	return u.follow(resp)
}

// askFirst looks for a large blob before it is sent, since a registry that does
// not mount opens a session whether the blob is there or not. If it is there,
// mounting does not tell on this host.
func (u *upload) askFirst(ctx context.Context) bool {
	if u.blob.Size < cheaperToAsk || u.repo.host.know().blindMount || !u.there(ctx) {
		return false
	}
	u.repo.host.learn(func(k *knowledge) { k.blindMount = true })
	return true
}

// there is whether the blob is known to be there.
func (u *upload) there(ctx context.Context) bool {
	there, err := u.repo.StatBlob(ctx, u.blob)
	return err == nil && there
}

// cancel ends an abandoned session, also when the caller has gone. It is
// best effort: registries purge old sessions. One that has kept a part of a
// broken body is further on than its Location says, and Distribution 3 refuses
// to end it there (416): it is asked where it is, once.
func (u *upload) cancel(ctx context.Context) {
	if u.at == nil {
		return
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), cancelTime)
	defer stop()
	if u.end(ctx) == http.StatusRequestedRangeNotSatisfiable && u.locate(ctx) {
		_ = u.end(ctx)
	}
	u.at = nil
}

// end asks for the end of the session, and returns what was answered, or 0.
func (u *upload) end(ctx context.Context) int {
	c := u.call
	c.method, c.at, c.once = http.MethodDelete, u.at, true
	resp, err := u.repo.send(ctx, c)
	if err != nil {
		return 0
	}
	drop(resp)
	return resp.StatusCode
}

// locate takes the session's URL of now.
func (u *upload) locate(ctx context.Context) bool {
	resp := u.ask(ctx)
	return resp != nil && u.follow(resp) == nil
}

// ask asks the session about itself; nil is any answer that tells nothing.
func (u *upload) ask(ctx context.Context) *http.Response {
	c := u.call
	c.method, c.at = http.MethodGet, u.at
	resp, err := u.repo.send(ctx, c)
	if err != nil {
		return nil
	}
	if resp.StatusCode/100 != 2 {
		drop(resp)
		return nil
	}
	return resp
}
