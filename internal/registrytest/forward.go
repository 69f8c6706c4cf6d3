package registrytest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// forwarder hands requests to the registry itself. What a client has sent of a
// request reaches the registry also when the client goes away meanwhile, and is
// under way until the registry is through with it; requests for one upload
// session wait for each other. So what comes of a request that was cut does not
// depend on which of the two is faster.
type forwarder struct {
	backend   string // http://host:port
	transport http.RoundTripper

	mu       sync.Mutex // guards what follows
	idle     *sync.Cond // told when underWay is 0
	underWay int
	sessions map[string]*sync.Mutex // by path
}

func newForwarder(backend string, transport http.RoundTripper) *forwarder {
	f := &forwarder{backend: backend, transport: transport, sessions: map[string]*sync.Mutex{}}
	f.idle = sync.NewCond(&f.mu)
	return f
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer f.begin(r)()
	if r.ContentLength != 0 {
		f.forwardBody(w, r)
		return
	}
	resp, err := f.transport.RoundTrip(f.outgoing(r))
	if err != nil {
		problem(http.StatusBadGateway, "UNKNOWN", err.Error()).write(w, r)
		return
	}
	answer(w, resp)
}

// begin notes a request that is under way until the function it returns is
// called.
func (f *forwarder) begin(r *http.Request) (end func()) {
	f.mu.Lock()
	f.underWay++
	session := f.sessions[r.URL.Path]
	if p := parsePath(r.URL.Path); session == nil && p.kind == "uploads" && p.ref != "" {
		session = &sync.Mutex{}
		f.sessions[r.URL.Path] = session
	}
	f.mu.Unlock()
	if session != nil {
		session.Lock()
	}
	return func() {
		if session != nil {
			session.Unlock()
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.underWay--; f.underWay == 0 {
			f.idle.Broadcast()
		}
	}
}

// settle waits until nothing is under way.
func (f *forwarder) settle() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.underWay > 0 {
		f.idle.Wait()
	}
}

// answer passes an answer on; the client may be gone.
func answer(w http.ResponseWriter, resp *http.Response) {
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// outgoing keeps the Host header, so that the registry writes absolute
// locations with the proxy's host.
func (f *forwarder) outgoing(r *http.Request) *http.Request {
	out := r.Clone(context.WithoutCancel(r.Context()))
	u, _ := url.Parse(f.backend) // our own text
	out.URL.Scheme, out.URL.Host = u.Scheme, u.Host
	out.RequestURI = ""
	if r.TLS != nil {
		out.Header.Set("X-Forwarded-Proto", "https")
	}
	if r.ContentLength == 0 {
		out.Body = http.NoBody
	}
	return out
}

// forwardBody sends a request over a connection of its own. When the body breaks
// off, the registry is told so by the end of the connection's one half, and what
// it kept of the body is settled when it ends the other.
func (f *forwarder) forwardBody(w http.ResponseWriter, r *http.Request) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.backend, "http://"))
	if err != nil {
		problem(http.StatusBadGateway, "UNKNOWN", err.Error()).write(w, r)
		return
	}
	defer func() { _ = conn.Close() }()
	out := f.outgoing(r)
	out.Close = true
	out.Header.Del("Expect") // the client has been told by the proxy's server
	body := &watchedBody{ReadCloser: out.Body}
	out.Body = body
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		buf := bufio.NewWriterSize(conn, 64<<10)
		_ = out.Write(buf) // what went wrong is told by the body, or by the answer
		_ = buf.Flush()
		if body.broken() {
			_ = conn.(*net.TCPConn).CloseWrite()
		}
	}()
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, out)
	switch {
	case body.broken():
		<-sent
		_, _ = io.Copy(io.Discard, in)
		return
	case err == nil:
		resp.Header.Del("Connection")
		answer(w, resp)
		_ = http.NewResponseController(w).Flush() // the client may not have sent all, and wait for it
	}
	_ = conn.Close()
	<-sent
}

// watchedBody knows whether it ended before its end.
type watchedBody struct {
	io.ReadCloser
	mu  sync.Mutex
	err error
}

func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.err = err
	}
	return n, err
}

func (b *watchedBody) broken() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err != nil
}

var errCut = errors.New("cut")

// cutBody ends with errCut after left bytes.
type cutBody struct {
	io.ReadCloser
	left int64
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errCut
	}
	n, err := b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// closeConnection ends the client's connection without an answer.
func closeConnection(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}
