package registrytest

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// forwarder hands requests to the registry itself.
type forwarder struct {
	backend   string // http://host:port
	transport http.RoundTripper
}

func (f *forwarder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if cut, ok := r.Body.(*cutBody); ok {
		f.forwardPart(r, cut)
		return
	}
	resp, err := f.transport.RoundTrip(f.outgoing(r))
	if err != nil {
		problem(http.StatusBadGateway, "UNKNOWN", err.Error()).write(w, r)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // the client may be gone
}

// outgoing keeps the Host header, so that the registry writes absolute
// locations with the proxy's host.
func (f *forwarder) outgoing(r *http.Request) *http.Request {
	out := r.Clone(r.Context())
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

// forwardPart sends the head and the first bytes of a request, then ends the
// connection, and returns when the registry has done so too: what it kept of
// the body is settled by then.
func (f *forwarder) forwardPart(r *http.Request, body *cutBody) {
	conn, err := net.Dial("tcp", strings.TrimPrefix(f.backend, "http://"))
	if err != nil {
		return
	}
	defer conn.Close()
	out := f.outgoing(r)
	out.Body, out.Close = body, true
	buf := bufio.NewWriter(conn)
	_ = out.Write(buf) // ends with errCut, unless the body was shorter
	_ = buf.Flush()    // a registry that closed early has settled as well
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_, _ = io.Copy(io.Discard, conn)
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
