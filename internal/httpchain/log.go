package httpchain

import (
	"log/slog"
	"net/http"

	"github.com/manifold-oci/manifold/internal/redact"
)

// logging writes one line per attempt, at debug level, without headers and with
// a redacted URL.
type logging struct {
	next  http.RoundTripper
	log   *slog.Logger
	clock Clock
}

func logged(next http.RoundTripper, log *slog.Logger, clock Clock) http.RoundTripper {
	if log == nil {
		return next
	}
	return &logging{next: next, log: log, clock: clock}
}

func (t *logging) RoundTrip(req *http.Request) (*http.Response, error) {
	start := t.clock.Now()
	resp, err := t.next.RoundTrip(req)
	attrs := []any{"method", req.Method, "url", redact.URL(req.URL), "took", t.clock.Now().Sub(start)}
	if err != nil {
		t.log.DebugContext(req.Context(), "request", append(attrs, "error", redact.Text(err.Error()))...)
		return nil, err
	}
	t.log.DebugContext(req.Context(), "request", append(attrs, "status", resp.StatusCode)...)
	return resp, nil
}
