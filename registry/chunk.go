package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// chunkRule is what a host is known to take in one piece, in bytes.
type chunkRule struct {
	// host is a name, or its end when it begins with a dot.
	host string
	// least and most bound a piece; a most of 0 is no bound, and never means
	// that a blob must not be cut.
	least, most int64
	never       bool
}

// chunkRules are what vendors say or what was found out about hosts that cannot
// be asked.
func chunkRules() []chunkRule {
	return []chunkRule{
		{host: "ghcr.io", most: 4 << 20},
		{host: ".pkg.dev", never: true},
		{host: "gcr.io", never: true},
		{host: ".gcr.io", never: true},
		{host: ".amazonaws.com", least: 5 << 20, most: 10 << 20},
		{host: "public.ecr.aws", least: 5 << 20, most: 10 << 20},
	}
}

func (r chunkRule) applies(host string) bool {
	return host == r.host || strings.HasPrefix(r.host, ".") && strings.HasSuffix(host, r.host)
}

// chunk is the size of the pieces that a blob is sent in, 0 for all at once.
func (u *upload) chunk() int64 {
	n := u.repo.client.o.ChunkSize
	if n <= 0 || u.spent != nil || u.repo.host.know().whole {
		return 0
	}
	for _, rule := range chunkRules() {
		if !rule.applies(u.repo.host.name) {
			continue
		}
		if rule.never {
			return 0
		}
		n = max(n, rule.least)
		if rule.most > 0 {
			n = min(n, rule.most)
		}
	}
	return max(n, u.least)
}

// chunks sends pieces of n bytes by PATCH, each to the Location of the answer
// before it, until no more than n are left: those go with the commit, since some
// registries fail at an empty one. A host that does not take the first piece is
// remembered, and gets the blob whole.
func (u *upload) chunks(ctx context.Context, n int64) error {
	for u.blob.Size-u.sent > n {
		err := u.piece(ctx, n)
		var e *Error
		if errors.As(err, &e) && u.sent == 0 && pieceRefused(e.Status) {
			u.repo.host.learn(func(k *knowledge) { k.whole = true })
			u.drop(ctx)
			return u.session(ctx)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// pieceRefused reports a status that says that a blob is not taken in pieces,
// or not in such.
func pieceRefused(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusLengthRequired,
		http.StatusRequestEntityTooLarge, http.StatusRequestedRangeNotSatisfiable, http.StatusNotImplemented:
		return true
	}
	return false
}

// piece sends n bytes from u.sent on. How much the session holds then is what
// its Range says, if that makes sense: it may have taken a part.
func (u *upload) piece(ctx context.Context, n int64) error {
	c, from := u.call, u.sent
	c.method, c.at, c.once = http.MethodPatch, u.at, true
	c.header = http.Header{
		"Content-Type":  {"application/octet-stream"},
		"Content-Range": {fmt.Sprintf("%d-%d", from, from+n-1)},
	}
	c.size = n
	c.body = func() (io.ReadCloser, error) { return u.src.piece(from, n), nil }
	resp, err := u.repo.do(ctx, c, http.StatusAccepted, http.StatusCreated, http.StatusOK, http.StatusNoContent)
	if err != nil {
		return err
	}
	u.sent = from + n
	if now, ok := held(resp.Header.Get("Range")); ok && now > from && now < u.sent {
		u.sent = now
	}
	return u.follow(resp)
}

// leastChunk is what a session says the smallest piece is.
func leastChunk(h http.Header) int64 {
	n, err := strconv.ParseInt(h.Get("OCI-Chunk-Min-Length"), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// piece is n bytes of the source from an offset on. The source stays open from
// one piece to the next: to open it anew for each would read it as often as
// there are pieces.
func (s *source) piece(from, n int64) io.ReadCloser {
	return &piece{src: s, body: sourceBody{src: s, skip: from}, from: from, left: n}
}

type piece struct {
	src        *source
	body       sourceBody
	from, left int64
}

func (p *piece) Read(b []byte) (int, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	n, err := p.body.Read(b[:min(int64(len(b)), p.left)])
	p.left -= int64(n)
	p.from += int64(n)
	if err == io.EOF && p.left > 0 {
		err = io.ErrUnexpectedEOF
		p.src.fail(err)
	}
	if p.left == 0 {
		p.keep()
		err = nil
	}
	return n, err
}

// keep leaves the source open for the next piece.
func (p *piece) keep() {
	p.body.mu.Lock()
	rc := p.body.rc
	p.body.rc = nil
	p.body.mu.Unlock()
	p.src.mu.Lock()
	defer p.src.mu.Unlock()
	p.src.kept, p.src.keptAt = rc, p.from
}

func (p *piece) Close() error { return p.body.Close() }

// take takes over what a piece has left open, if that goes on at an offset; else
// it ends it.
func (s *source) take(offset int64) io.ReadCloser {
	s.mu.Lock()
	kept, at := s.kept, s.keptAt
	s.kept = nil
	s.mu.Unlock()
	if kept != nil && at != offset {
		_ = kept.Close()
		return nil
	}
	return kept
}

// close ends what a piece has left open.
func (s *source) close() {
	if rc := s.take(s.keptAt); rc != nil {
		_ = rc.Close()
	}
}
