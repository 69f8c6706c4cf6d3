package buildkit

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

const (
	// relayFrom is the size in bytes from which a blob is sent on while it
	// arrives. Smaller ones wait in memory and are published with the manifests:
	// asking the registry about them would cost more than receiving them.
	relayFrom = 64 << 10
	// relayAttempts bounds how often a node is asked to export, when the
	// registry fails while the bytes of a blob pass through.
	relayAttempts = 3
)

// errAbandoned is what an upload ends with when the node stops sending.
var errAbandoned = errors.New("the node stopped sending")

// relay sends the blobs that nodes export on to one repository while they
// arrive: nothing is kept, and what the repository has is not received at all.
// All stores of a build share it. It is safe for concurrent use.
type relay struct {
	repo     ref.Reference
	registry Registry
	report   report.Sink

	mu      sync.Mutex
	held    map[digest.Digest]build.Relayed
	flights map[digest.Digest]chan struct{} // closed when the upload has ended
}

func newRelay(repo ref.Reference, reg Registry, sink report.Sink) *relay {
	return &relay{
		repo: repo, registry: reg, report: sink,
		held: map[digest.Digest]build.Relayed{}, flights: map[digest.Digest]chan struct{}{},
	}
}

// takes reports whether a blob goes through the relay. Manifests do not: what
// they say decides what is published.
func (r *relay) takes(o content.WriterOpts) bool {
	manifest := strings.HasPrefix(o.Ref, "manifest-") || strings.HasPrefix(o.Ref, "index-")
	return r != nil && !manifest && o.Desc.Digest != "" && o.Desc.Size >= relayFrom
}

// begin asks the repository for a blob. A nil function means that there is
// nothing to send, for the blob is there. When another store is sending the
// same blob, its end is waited for.
func (r *relay) begin(ctx context.Context, d oci.Descriptor) (func(context.Context, io.Reader) error, error) {
	leave, held, err := r.enter(ctx, d.Digest)
	if held || err != nil {
		return nil, err
	}
	send, err := r.registry.BeginBlob(ctx, r.repo, d)
	if err != nil || send == nil {
		if err == nil {
			r.keep(d, true)
		}
		leave()
		return nil, err
	}
	return func(ctx context.Context, body io.Reader) error {
		defer leave()
		r.event(d, report.Started, nil)
		if err := send(ctx, body); err != nil {
			r.event(d, report.Failed, err)
			return err
		}
		r.keep(d, false)
		return nil
	}, nil
}

// enter waits until nobody else sends the blob; held says that it is there.
func (r *relay) enter(ctx context.Context, d digest.Digest) (leave func(), held bool, err error) {
	for {
		r.mu.Lock()
		_, held := r.held[d]
		other := r.flights[d]
		if held || other == nil {
			mine := make(chan struct{})
			if !held {
				r.flights[d] = mine
			}
			r.mu.Unlock()
			return sync.OnceFunc(func() { r.leave(d, mine) }), held, nil
		}
		r.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

func (r *relay) leave(d digest.Digest, flight chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.flights, d)
	close(flight)
}

func (r *relay) keep(d oci.Descriptor, present bool) {
	r.mu.Lock()
	r.held[d.Digest] = build.Relayed{Digest: d.Digest, Size: d.Size, Present: present}
	r.mu.Unlock()
	state := report.Done
	if present {
		state = report.Present
	}
	r.event(d, state, nil)
}

func (r *relay) event(d oci.Descriptor, state report.State, err error) {
	e := report.Event{Kind: report.Blob, State: state, Target: r.repo.Name(), Digest: d.Digest, Total: d.Size, Err: err}
	if state == report.Done || state == report.Present {
		e.Bytes = d.Size
	}
	r.report.Send(e)
}

// of lists what is in the repository of the blobs that a store was offered.
func (r *relay) of(digests []digest.Digest) []build.Relayed {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []build.Relayed
	for _, d := range slices.Sorted(slices.Values(digests)) {
		if b, ok := r.held[d]; ok {
			out = append(out, b)
		}
	}
	return out
}
