package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/manifold-oci/manifold/internal/httpchain"
)

// run sends the blob into the open session, and into further ones when that is
// lost.
func (u *upload) run(ctx context.Context) error {
	defer u.src.close()
	var most int64 // that a session has held
	for n := 1; ; n++ {
		failure := u.send(ctx)
		if failure == nil {
			return nil
		}
		if cause := u.src.failure(); cause != nil {
			u.cancel(ctx)
			return u.repo.failed(u.call, cause)
		}
		there, err := u.recover(ctx, failure)
		if there {
			return nil
		}
		if u.sent > most {
			most, n = u.sent, 1 // it goes on, if slowly
		}
		if err == nil && (n == sessions || n > 1 && Silent(failure) || u.spent != nil && u.spent()) {
			err = givenUp(failure)
		}
		if err != nil {
			u.cancel(ctx)
			return u.blame(ctx, err)
		}
		if err := u.reopen(ctx, n); err != nil {
			return err
		}
	}
}

// blame says whose fault it is when a registry received other bytes than it was
// told: the source is read once more, and checked.
func (u *upload) blame(ctx context.Context, failure error) error {
	var e *Error
	if !errors.As(failure, &e) || !e.Has("DIGEST_INVALID", "SIZE_INVALID", "BLOB_UPLOAD_INVALID") || u.spent != nil {
		return failure
	}
	in, err := u.src.open(ctx)
	if err == nil {
		_, err = io.Copy(io.Discard, in)
		_ = in.Close()
	}
	if err != nil {
		return u.repo.failed(u.call, err)
	}
	return failure
}

// givenUp is the last failure, and what is behind it if that is known.
func givenUp(failure error) error {
	var e *Error
	if errors.As(failure, &e) && sessionLost(e) {
		e.Cause = ErrSessionLost
	}
	return failure
}

// recover decides after a failure. It returns true when the blob is there after
// all, nil when it is worth another try, and the error when it is not.
func (u *upload) recover(ctx context.Context, err error) (there bool, _ error) {
	var e *Error
	switch {
	case ctx.Err() != nil || !errors.As(err, &e):
		return false, err
	case unknownOutcome(err):
		there, statErr := u.repo.StatBlob(ctx, u.blob)
		if statErr != nil {
			return false, err
		}
		if !there {
			u.status(ctx)
		}
		return there, nil
	case u.sent > 0 && (e.Status == http.StatusBadRequest || sessionLost(e)):
		u.drop(ctx) // taking it up again was not understood
		return false, nil
	case sessionLost(e):
		u.at = nil
		return false, nil
	case !u.repo.host.know().patch && onePutRefused(e):
		u.repo.host.learn(func(k *knowledge) { k.patch = true })
		u.drop(ctx)
		return false, nil
	}
	return false, err
}

// drop gives up the session.
func (u *upload) drop(ctx context.Context) {
	u.cancel(ctx)
	u.at, u.sent = nil, 0
}

// reopen makes sure that there is a session for the next try.
func (u *upload) reopen(ctx context.Context, n int) error {
	if n > 1 {
		if err := u.repo.client.chain.Clock.Sleep(ctx, httpchain.Backoff(n-1)); err != nil {
			u.cancel(ctx)
			return u.repo.failed(u.call, err)
		}
	}
	if u.at != nil {
		return nil
	}
	return u.session(ctx)
}

// sessionLost recognises a session that the registry does not know, or that is
// not where the registry thinks it is (Distribution 2: 400 and 404,
// Distribution 3: 416, zot: 404).
func sessionLost(e *Error) bool {
	switch e.Status {
	case http.StatusNotFound:
		return !e.Has("NAME_UNKNOWN")
	case http.StatusRequestedRangeNotSatisfiable:
		return true
	}
	return e.Status == http.StatusBadRequest && e.Has("BLOB_UPLOAD_UNKNOWN", "BLOB_UPLOAD_INVALID", "RANGE_INVALID")
}

// onePutRefused recognises a registry that wants a blob by PATCH.
func onePutRefused(e *Error) bool {
	return e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented || e.Has("UNSUPPORTED")
}

// status asks what the session holds after a broken request. A session that is
// gone, empty or cannot be asked is given up.
func (u *upload) status(ctx context.Context) {
	u.sent = 0
	resp := u.ask(ctx)
	if resp == nil {
		u.drop(ctx)
		return
	}
	held, ok := held(resp.Header.Get("Range"))
	if !ok || held > u.blob.Size || u.follow(resp) != nil {
		drop(resp)
		u.drop(ctx)
		return
	}
	u.sent = held
}

// held reads the Range header of a session: "0-1023" is 1024 bytes. "0-0" is
// what registries say of an empty one, too.
func held(s string) (int64, bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "bytes="), "-")
	n, err := strconv.ParseInt(last, 10, 64)
	return n + 1, ok && first == "0" && err == nil && n > 0
}

// send sends what the session does not hold yet, and commits.
func (u *upload) send(ctx context.Context) error {
	if n := u.chunk(); n > 0 {
		if err := u.chunks(ctx, n); err != nil {
			return err
		}
	}
	c := u.call
	if u.repo.host.know().patch {
		if err := u.patch(ctx); err != nil {
			return err
		}
	} else {
		u.fill(&c)
	}
	c.method, c.once = http.MethodPut, true
	c.at = commitURL(u.at, u.blob.Digest.String())
	resp, err := u.repo.do(ctx, c, http.StatusCreated, http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	if err != nil {
		return err
	}
	drop(resp)
	return nil
}

// patch sends the bytes by PATCH, all at once.
func (u *upload) patch(ctx context.Context) error {
	c := u.call
	u.fill(&c)
	c.method, c.at, c.once = http.MethodPatch, u.at, true
	resp, err := u.repo.do(ctx, c, http.StatusAccepted, http.StatusCreated, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return err
	}
	return u.follow(resp)
}

// fill gives a call the bytes from u.sent on.
func (u *upload) fill(c *call) {
	skip := u.sent
	c.header = http.Header{"Content-Type": {"application/octet-stream"}}
	c.size = u.blob.Size - skip
	c.body = func() (io.ReadCloser, error) { return u.src.body(skip), nil }
	if skip > 0 && c.size > 0 {
		c.header.Set("Content-Range", fmt.Sprintf("%d-%d", skip, u.blob.Size-1))
	}
}

// commitURL adds the digest to a session's URL, whose query stays as it was
// given: some are signed.
func commitURL(at *url.URL, digest string) *url.URL {
	u := *at
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += "digest=" + url.QueryEscape(digest)
	return &u
}

// follow takes the session's URL from an answer and closes it: each request
// goes to the Location of the answer before it. An answer without one
// leaves the URL as it is, unless there is none yet.
func (u *upload) follow(resp *http.Response) error {
	defer drop(resp)
	u.least = max(u.least, leastChunk(resp.Header))
	location := resp.Header.Get("Location")
	if location == "" && u.at != nil {
		return nil
	}
	at, err := resp.Request.URL.Parse(location)
	if err != nil || location == "" || (at.Scheme != "http" && at.Scheme != "https") {
		return u.repo.failed(u.call, errors.New("the registry opened an upload session and did not say where"))
	}
	at.User, at.Fragment = nil, ""
	if sameHost(at, u.repo.host.name) {
		at.Host = u.repo.host.name
	}
	u.at = at
	return nil
}

// sameHost compares a URL's host with a name, a default port written out or
// not.
func sameHost(u *url.URL, name string) bool {
	return strings.EqualFold(u.Host, name) ||
		(u.Port() == "443" && u.Scheme == "https" && strings.EqualFold(strings.TrimSuffix(u.Host, ":443"), name)) ||
		(u.Port() == "80" && u.Scheme == "http" && strings.EqualFold(strings.TrimSuffix(u.Host, ":80"), name))
}

// source opens a blob's bytes for one attempt after the other, and keeps what
// went wrong on that side apart from what the registry said.
type source struct {
	ctx  context.Context
	open func(context.Context) (io.ReadCloser, error)

	mu  sync.Mutex
	err error
	// kept is what a piece has left open for the next one, at an offset.
	kept   io.ReadCloser
	keptAt int64
}

func (s *source) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// failure is the first error of the source.
func (s *source) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// body is the source from an offset on. It is opened by the first Read, so that
// an attempt that is refused at once costs nothing.
func (s *source) body(skip int64) io.ReadCloser { return &sourceBody{src: s, skip: skip} }

type sourceBody struct {
	src  *source
	skip int64

	mu     sync.Mutex // Close may come while Read is under way
	rc     io.ReadCloser
	closed bool
}

func (b *sourceBody) Read(p []byte) (int, error) {
	rc, err := b.opened()
	if err != nil {
		return 0, err
	}
	n, err := rc.Read(p)
	if err != nil && err != io.EOF && !b.isClosed() {
		b.src.fail(err)
	}
	return n, err
}

func (b *sourceBody) opened() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, io.ErrClosedPipe
	}
	if b.rc != nil {
		return b.rc, nil
	}
	if b.rc = b.src.take(b.skip); b.rc != nil {
		return b.rc, nil
	}
	rc, err := b.src.open(b.src.ctx)
	if err == nil {
		_, err = io.CopyN(io.Discard, rc, b.skip)
	}
	if err != nil {
		b.src.fail(err)
		return nil, err
	}
	b.rc = rc
	return rc, nil
}

func (b *sourceBody) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

func (b *sourceBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	if b.rc == nil {
		return nil
	}
	return b.rc.Close()
}
