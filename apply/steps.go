package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
)

// step carries out one step.
func (r *run) step(ctx context.Context, s plan.Step) error {
	switch s.Op {
	case plan.CopyBlob:
		return r.copyBlob(ctx, s)
	case plan.PutManifest:
		return r.putManifest(ctx, s)
	case plan.ReadBack:
		return r.readBack(ctx, s)
	case plan.MoveTag:
		return r.moveTag(ctx, s)
	case plan.ConfirmTag:
		return r.confirmTag(ctx, s)
	case plan.Confirm:
		return r.confirm(ctx, s)
	}
	return fmt.Errorf("unknown operation %q", s.Op)
}

func (r *run) event(s plan.Step, kind report.Kind, state report.State) report.Event {
	target := s.Target
	if s.Tag != "" {
		target += ":" + s.Tag
	}
	return report.Event{Kind: kind, State: state, Target: target, Digest: s.Digest, Media: s.MediaType, Total: s.Size}
}

func (r *run) failed(e report.Event, err error) error {
	e.State, e.Err = report.Failed, err
	r.o.Report.Send(e)
	return err
}

// copyBlob mounts or uploads one blob, trying the sources in their order.
func (r *run) copyBlob(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.Blob, report.Started)
	r.o.Report.Send(e)
	outcome, err := r.placeBlob(ctx, s)
	if err != nil {
		return r.failed(e, err)
	}
	// A mount is acknowledged the same whether the blob was there before or not.
	if outcome == registry.Uploaded {
		r.note(r.fresh, of(s))
	}
	e.State, e.Bytes = r.countBlob(outcome, s.Size), s.Size
	r.o.Report.Send(e)
	return nil
}

func (r *run) placeBlob(ctx context.Context, s plan.Step) (registry.Outcome, error) {
	d := oci.Descriptor{MediaType: s.MediaType, Digest: s.Digest, Size: s.Size}
	repo := r.o.Repository(target(s.Target))
	if r.o.Again {
		if there, err := repo.StatBlob(ctx, d); err == nil && there {
			return registry.Present, nil
		}
	}
	return repo.CopyBlob(ctx, d, mountable(s), func(ctx context.Context) (io.ReadCloser, error) {
		return r.openBlob(ctx, s, d)
	})
}

func (r *run) countBlob(outcome registry.Outcome, size int64) report.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch outcome {
	case registry.Present:
		r.result.Present++
		return report.Present
	case registry.Mounted:
		r.result.Mounted++
		return report.Mounted
	}
	r.result.Uploaded++
	r.result.UploadedBytes += size
	return report.Done
}

// mountable are the paths of the sources on the target's own host.
func mountable(s plan.Step) []string {
	host, _, _ := strings.Cut(s.Target, "/")
	var out []string
	for _, from := range s.From {
		if path, ok := strings.CutPrefix(from, host+"/"); ok {
			out = append(out, path)
		}
	}
	return out
}

// openBlob opens a blob at the first source that gives it.
func (r *run) openBlob(ctx context.Context, s plan.Step, d oci.Descriptor) (io.ReadCloser, error) {
	var errs []error
	for _, place := range s.From {
		p, err := r.o.Place(place)
		if err == nil {
			var rc io.ReadCloser
			if rc, err = p.OpenBlob(ctx, d); err == nil {
				return newMeter(rc, r.o.Report, r.event(s, report.Blob, report.Moving)), nil
			}
		}
		if !strings.HasPrefix(err.Error(), place) {
			err = fmt.Errorf("%s: %w", place, err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

func (r *run) manifest(s plan.Step) oci.Blob {
	b, _ := r.plan.Manifest(s.Digest) // Validate has seen that it is there
	return b
}

// putManifest writes by digest. A child that the registry has acknowledged and
// does not see yet makes it refuse the parent; that is lag, not a fault.
func (r *run) putManifest(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.Manifest, report.Started)
	r.o.Report.Send(e)
	repo := r.o.Repository(target(s.Target))
	if r.o.Again && r.compare(ctx, s, s.Digest.String()) == nil {
		r.note(r.seen, of(s))
		e.State = report.Present
		r.o.Report.Send(e)
		return nil
	}
	err := r.within(ctx, func(err error) bool { return len(s.After) > 0 && registry.ChildUnknown(err) }, func() error {
		return repo.PutManifest(ctx, r.manifest(s))
	})
	if err != nil {
		return r.failed(e, err)
	}
	r.mu.Lock()
	r.result.Written = append(r.result.Written, Written{Repository: target(s.Target), Digest: s.Digest})
	r.mu.Unlock()
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

// readBack fetches a manifest by digest and compares bytes and media type with
// what the plan holds. One that was found there instead of sent has been.
func (r *run) readBack(ctx context.Context, s plan.Step) error {
	if r.noted(r.seen, of(s)) {
		return nil
	}
	e := r.event(s, report.ReadBack, report.Started)
	r.o.Report.Send(e)
	err := r.within(ctx, r.o.Absent, func() error { return r.compare(ctx, s, s.Digest.String()) })
	if err != nil {
		return r.failed(e, err)
	}
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

func (r *run) compare(ctx context.Context, s plan.Step, identifier string) error {
	got, err := r.o.Repository(target(s.Target)).Manifest(ctx, identifier)
	if err != nil {
		return err
	}
	want := r.manifest(s)
	if err := oci.Check(want.Descriptor, got.Bytes); err != nil {
		return err
	}
	if got.MediaType != want.MediaType {
		return &oci.MismatchError{What: "media type", Want: want.MediaType, Got: got.MediaType}
	}
	return nil
}

// confirm reads a child after the tags have moved and puts it back if it is
// gone. Its blobs are still there: registries collect those later.
func (r *run) confirm(ctx context.Context, s plan.Step) error {
	e := r.event(s, report.ReadBack, report.Started)
	r.o.Report.Send(e)
	err := r.compare(ctx, s, s.Digest.String())
	if err != nil && r.o.Absent(err) {
		err = r.putBack(ctx, s)
	}
	if err != nil {
		return r.failed(e, err)
	}
	e.State = report.Done
	r.o.Report.Send(e)
	return nil
}

func (r *run) putBack(ctx context.Context, s plan.Step) error {
	if err := r.o.Repository(target(s.Target)).PutManifest(ctx, r.manifest(s)); err != nil {
		return err
	}
	r.mu.Lock()
	r.result.PutBack = append(r.result.PutBack, s.Digest)
	r.mu.Unlock()
	r.o.Report.Warn(s.Target, fmt.Sprintf("%s vanished when the tag moved and was put back", s.Digest))
	return r.within(ctx, r.o.Absent, func() error { return r.compare(ctx, s, s.Digest.String()) })
}

// within repeats f while its error is what again accepts, in growing pauses
// that together stay inside the lag window.
func (r *run) within(ctx context.Context, again func(error) bool, f func() error) error {
	var waited time.Duration
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
		err := f()
		if err == nil || !again(err) {
			return err
		}
		if waited+pause > r.o.Lag {
			return &InvisibleError{Waited: waited, Err: err}
		}
		if err := r.o.Sleep(ctx, pause); err != nil {
			return err
		}
		waited += pause
	}
}
