package registrytest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http"
	"strconv"
)

// Answer is a whole response, before it goes out.
type Answer struct {
	// Status is 0 when nothing was answered.
	Status int
	Header http.Header
	// Body is empty for HEAD, whose Content-Length is in Header.
	Body []byte
}

// Rewrite changes an answer of the registry.
type Rewrite func(a *Answer)

// StripHeader removes headers.
func StripHeader(names ...string) Rewrite {
	return func(a *Answer) {
		for _, n := range names {
			a.Header.Del(n)
		}
	}
}

// SetHeader sets one header.
func SetHeader(name, value string) Rewrite {
	return func(a *Answer) { a.Header.Set(name, value) }
}

// CorruptByte flips one bit of the body's byte at offset; a shorter body stays
// as it is.
func CorruptByte(offset int) Rewrite {
	return func(a *Answer) {
		if offset < len(a.Body) {
			a.Body[offset] ^= 1
		}
	}
}

// Truncate keeps the first n bytes of the body and says so in Content-Length.
func Truncate(n int) Rewrite {
	return func(a *Answer) { a.Body = a.Body[:min(n, len(a.Body))] }
}

// Reserialize writes a JSON body again in another style, as gateways do: same
// meaning, other bytes, headers as they were. Other bodies stay.
func Reserialize(s Style) Rewrite {
	return func(a *Answer) {
		if json.Valid(a.Body) {
			a.Body = s.apply(a.Body)
		}
	}
}

// Gzip compresses the body, whether the client asked for it or not.
func Gzip() Rewrite {
	return func(a *Answer) {
		if len(a.Body) == 0 {
			return
		}
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(a.Body) // a buffer does not fail
		_ = z.Close()
		a.Body = b.Bytes()
		a.Header.Set("Content-Encoding", "gzip")
	}
}

// Reply replaces status and body; headers stay.
func Reply(status int, body string) Rewrite {
	return func(a *Answer) { a.Status, a.Body = status, []byte(body) }
}

// record runs h and returns its answer instead of sending it.
func record(h http.Handler, r *http.Request) *Answer {
	rec := &recorder{Answer{Header: http.Header{}}}
	h.ServeHTTP(rec, r)
	return &rec.answer
}

type recorder struct{ answer Answer }

func (r *recorder) Header() http.Header { return r.answer.Header }

func (r *recorder) WriteHeader(status int) {
	if r.answer.Status == 0 {
		r.answer.Status = status
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	r.answer.Body = append(r.answer.Body, p...)
	return len(p), nil
}

// write sends the answer, or nothing when there is none.
func (a *Answer) write(w http.ResponseWriter, r *http.Request) {
	if a.Status == 0 {
		return
	}
	a.writeHeader(w, r)
	_, _ = w.Write(a.Body) // the client may be gone
}

func (a *Answer) writeHeader(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodHead {
		a.Header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	}
	if noBody(a.Status) {
		a.Header.Del("Content-Length")
	}
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
}

func noBody(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified || status < 200
}

// problem is an error as the distribution specification words it.
func problem(status int, code, message string) *Answer {
	body, _ := json.Marshal(map[string]any{"errors": []any{map[string]any{"code": code, "message": message}}}) // strings marshal
	return &Answer{Status: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: body}
}
