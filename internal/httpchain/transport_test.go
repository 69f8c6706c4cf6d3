package httpchain

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// closingConn tells when it is closed.
type closingConn struct {
	net.Conn
	closed func()
}

func (c *closingConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestClosingConnectionsHoldsUpNoRequest: every request asks for the transport of
// its host.
func TestClosingConnectionsHoldsUpNoRequest(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer s.Close()
	var all *transports
	closed, free := 0, false
	base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &closingConn{c, func() {
			closed++
			if free = all.mu.TryLock(); free {
				all.mu.Unlock()
			}
		}}, err
	}}
	all, ok := newTransports(base, []string{"lax.example"}, nil).(*transports)
	if !ok {
		t.Fatal("the transport is as it was given")
	}
	resp, err := (&http.Client{Transport: all}).Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	all.CloseIdleConnections()
	if closed == 0 || !free {
		t.Errorf("closed %d, the others could go on: %t", closed, free)
	}
}
