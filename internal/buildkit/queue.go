package buildkit

import (
	"bytes"
	"io"
	"sync"
)

// queueLength is how many writes may be ahead of the reader. BuildKit writes a
// megabyte at most, and waits for the answer to one write before the next: with
// room for a few, bytes arrive while others are sent on.
const queueLength = 3

// newQueue is io.Pipe with a little room in it.
func newQueue() (*queueReader, *queueWriter) {
	q := &queue{chunks: make(chan []byte, queueLength), free: make(chan []byte, queueLength+1), written: make(chan struct{}), gone: make(chan struct{})}
	return &queueReader{queue: q}, &queueWriter{queue: q}
}

type queue struct {
	chunks chan []byte
	// free are chunks that were read, to be filled again.
	free chan []byte
	// written is closed when there is nothing more to come, gone when nobody
	// reads any more; each with its error.
	written, gone     chan struct{}
	writeErr, readErr error
	endWrite, endRead sync.Once
}

type queueReader struct {
	*queue
	chunk []byte
	rest  bytes.Reader
}

// take begins to read a chunk, and gives the one before back.
func (r *queueReader) take(b []byte) {
	select {
	case r.free <- r.chunk:
	default:
	}
	r.chunk = b
	r.rest.Reset(b)
}

// Read reads what was written, then the error that the writer ended with.
func (r *queueReader) Read(p []byte) (int, error) {
	for r.rest.Len() == 0 {
		select {
		case b := <-r.chunks:
			r.take(b)
			continue
		default:
		}
		select {
		case b := <-r.chunks:
			r.take(b)
		case <-r.written:
			if len(r.chunks) == 0 {
				return 0, r.writeErr
			}
		}
	}
	return r.rest.Read(p)
}

// CloseWithError makes writes fail from now on.
func (r *queueReader) CloseWithError(err error) {
	r.endRead.Do(func() {
		if r.readErr = err; err == nil {
			r.readErr = io.ErrClosedPipe
		}
		close(r.gone)
	})
}

type queueWriter struct{ *queue }

// Write copies p into the queue. It is called by one goroutine at a time.
func (w *queueWriter) Write(p []byte) (int, error) {
	select {
	case <-w.gone:
		return 0, w.readErr
	default:
	}
	var b []byte
	select {
	case b = <-w.free:
	default:
	}
	select {
	case w.chunks <- append(b[:0], p...):
		return len(p), nil
	case <-w.gone:
		return 0, w.readErr
	}
}

// CloseWithError ends what is read with err after the writes so far; nil is
// io.EOF.
func (w *queueWriter) CloseWithError(err error) {
	w.endWrite.Do(func() {
		if w.writeErr = err; err == nil {
			w.writeErr = io.EOF
		}
		close(w.written)
	})
}
