package apply

import (
	"io"

	"github.com/manifold-oci/manifold/report"
)

// meterStep is how many bytes pass between two progress events.
const meterStep = 1 << 20

// meter reports bytes as they are read.
type meter struct {
	io.ReadCloser
	sink  report.Sink
	event report.Event
	next  int64
}

func newMeter(rc io.ReadCloser, sink report.Sink, e report.Event) io.ReadCloser {
	if sink == nil {
		return rc
	}
	return &meter{ReadCloser: rc, sink: sink, event: e, next: meterStep}
}

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	m.event.Bytes += int64(n)
	if m.event.Bytes >= m.next {
		m.next = m.event.Bytes + meterStep
		m.sink.Send(m.event)
	}
	return n, err
}
