package buildkit

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
)

// target is one platform to solve on a node.
type target struct {
	platform oci.Platform
	options  buildx.Options
	store    *Store // what its export goes to; of a push, where its attestations are brought
}

// result is a target that was solved.
type result struct {
	target
	response *client.SolveResponse
	took     time.Duration
	beside   *beside // what was made next to a push
}

// image describes the image that was exported, or pushed.
func (r result) image() (oci.Descriptor, error) {
	switch {
	case r.beside != nil:
		return r.beside.image, nil
	case len(r.options.Exports) > 1:
		return oci.Descriptor{}, &ExportError{Reason: "what was made beside the push could not be read from the node"}
	}
	return exported(r.response)
}

// solve runs targets in one build of buildx over this node alone, so that the
// context is sent once. It returns the results that there are in the order of
// targets, also next to an error: the first failure (with keepGoing, all) as
// *build.NodeError, a *build.UnreachableError when the node is lost, or the cause
// of ctx. label is shown behind the platform.
func (p *port) solve(ctx context.Context, targets []target, label string, keepGoing bool) ([]result, error) {
	opts := map[string]buildx.Options{}
	for i, t := range targets {
		if err := p.stdin.attach(&t.options.Inputs); err != nil {
			return nil, p.fault(nil, err)
		}
		opts[targetName(t.platform, label)] = p.spec.relinked(t.options, t.platform, label)
		maps.Copy(opts, p.spec.linkedTargets(t.platform, label))
		targets[i] = t
	}
	log := newOutcomes(keepGoing)
	handler := log.handler()
	handler.Evaluate = checker{port: p, notes: log, label: label, binaries: label == "" && !p.o.NoBinaryCheck}.evaluate
	ctx, writer, done := p.watched(ctx, p.writer(targets, label))
	defer done(nil)
	responses, err := buildx.Build(ctx, []builder.Node{p.machine.Node}, opts, p.nodes.docker, p.nodes.config, writer, handler)
	var out []result
	for _, t := range targets {
		name := targetName(t.platform, label)
		if r := responses[name]; r != nil {
			out = append(out, result{target: t, response: r, took: log.took(name)})
		}
	}
	if err == nil && len(out) == len(targets) {
		return out, nil
	}
	if err == nil {
		err = &ExportError{Reason: "the node answered for some of the platforms only"}
	}
	if cause := context.Cause(ctx); cause != nil {
		return out, cause
	}
	if lost := p.lost(ctx, targets, err); lost != nil {
		return out, lost
	}
	return out, p.failure(log, targets, label, err)
}

// targetName is shown in front of every step.
func targetName(p oci.Platform, label string) string { return oci.FormatPlatform(p) + label }

// writer prefixes steps with the platform. buildx does it by itself for
// several targets on one node, but knows nothing of the other nodes.
func (p *port) writer(targets []target, label string) progress.Writer {
	w := p.progress
	if label == attestationLabel {
		w = newSecondPass(w)
	}
	if len(targets) == 1 && (len(p.spec.Platforms) > 1 || label != "") {
		return progress.WithPrefix(w, targetName(targets[0].platform, label), true)
	}
	return w
}

// failure makes errors of the targets that failed by themselves; if there is
// none, of the build as a whole.
func (p *port) failure(log *outcomes, targets []target, label string, whole error) error {
	var errs []error
	for _, t := range targets {
		name := targetName(t.platform, label)
		if err := log.failed(name); err != nil {
			errs = append(errs, p.fault(&t.platform, trimTarget(err, name)))
		}
	}
	switch {
	case len(errs) == 0 && len(targets) == 1:
		return p.fault(&targets[0].platform, whole)
	case len(errs) == 0:
		return p.fault(nil, whole)
	}
	return joined(errs)
}

// joined is the one error as it is, or several joined.
func joined(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// trimTarget drops the target's name that buildx puts in front of an error;
// it is the platform, which the error around it names.
func trimTarget(err error, name string) error {
	for strings.HasPrefix(err.Error(), "target "+name+": ") {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return err
}

// outcomes notes when and how each target ends.
type outcomes struct {
	mode  buildx.ExecutionMode
	start time.Time

	mu      sync.Mutex
	results map[string]buildx.TargetResult
	ends    map[string]time.Time
	refused map[string]error
}

func newOutcomes(keepGoing bool) *outcomes {
	o := &outcomes{mode: buildx.ExecutionModeFailFast, start: time.Now(), results: map[string]buildx.TargetResult{}, ends: map[string]time.Time{}, refused: map[string]error{}}
	if keepGoing {
		o.mode = buildx.ExecutionModeDeferError
	}
	return o
}

func (o *outcomes) handler() *buildx.Handler {
	return &buildx.Handler{Execution: buildx.Execution{Mode: o.mode}, Completed: func(name string, r buildx.TargetResult) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.results[name], o.ends[name] = r, time.Now()
	}}
}

// refuse notes why a target is not to be exported; through the node that reason
// would come back as text.
func (o *outcomes) refuse(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.refused[name] = err
}

// failed returns the failure of a target unless another's caused it.
func (o *outcomes) failed(name string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := o.refused[name]; err != nil {
		return err
	}
	if r := o.results[name]; !r.Aborted {
		return r.Err
	}
	return nil
}

func (o *outcomes) took(name string) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ends[name].Sub(o.start)
}

// silent is a progress writer that shows nothing.
type silent struct{}

func (silent) Write(*client.SolveStatus)                 {}
func (silent) WriteBuildRef(string, string)              {}
func (silent) ValidateLogSource(digest.Digest, any) bool { return true }
func (silent) ClearLogSource(any)                        {}
