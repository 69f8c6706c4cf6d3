package build

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// Run builds every platform of o on one of the nodes, all nodes at once, and
// returns the images in the order of o.Platforms. What a node declares need not
// be what it lists; that is only asked for when nobody declares one of the
// platforms wanted. A node that does not answer matters only if it is needed.
//
// Errors: *NoNodeError and *UnreachableError before anything is built;
// *NodeError for the first build that failed (with KeepGoing, all of them,
// joined), *DestinationError when it was where the images go that failed; the
// cause of ctx when the caller gave up. The images that were
// finished are returned with an error, see Node.Build.
func Run(ctx context.Context, nodes []Node, o Options) ([]Image, error) {
	if len(nodes) == 0 {
		return nil, &NoNodeError{}
	}
	jobs, err := assign(ctx, nodes, o)
	if err != nil {
		return nil, err
	}
	if err := reach(ctx, jobs, o); err != nil {
		return nil, err
	}
	images, err := runJobs(ctx, jobs, o)
	return inOrder(images, unique(o.Platforms)), err
}

// job is the share of one node.
type job struct {
	node      Node
	platforms []oci.Platform
}

func assign(ctx context.Context, nodes []Node, o Options) ([]job, error) {
	want := unique(o.Platforms)
	if len(want) == 0 {
		return []job{{node: nodes[0]}}, nil
	}
	candidates := make([]Candidate, len(nodes))
	for i, n := range nodes {
		candidates[i] = Candidate{Name: n.Name(), Declared: n.Declared()}
	}
	if _, err := Assign(want, candidates, false); err != nil {
		if want, err = askAll(ctx, nodes, candidates, want, o); err != nil {
			return nil, err
		}
	}
	weigh(ctx, nodes, candidates, want, o.Report)
	as, err := Assign(want, candidates, o.AllowEmulation)
	if err != nil {
		return nil, err
	}
	warnEmulated(as, nodes, o.Report)
	return group(as, nodes), nil
}

// askAll asks the nodes what they build, and returns the platforms that can be
// built. If one is still without a node, a silent node may be the one that has
// it: its error is the answer then, and emulation is no way round it.
func askAll(ctx context.Context, nodes []Node, candidates []Candidate, want []oci.Platform, o Options) ([]oci.Platform, error) {
	silent := ask(ctx, nodes, candidates)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	want, err := o.withNode(want, candidates, silent)
	if err != nil {
		return nil, err
	}
	for _, e := range silent {
		o.Report.Warn("", e.Error())
	}
	return want, nil
}

// withNode drops optional platforms that no node builds.
func (o Options) withNode(want []oci.Platform, candidates []Candidate, silent []error) ([]oci.Platform, error) {
	var out []oci.Platform
	for _, p := range want {
		_, err := Assign([]oci.Platform{p}, candidates, o.AllowEmulation && len(silent) == 0)
		if err != nil && len(silent) > 0 {
			err = silent[0]
		}
		switch {
		case err == nil:
			out = append(out, p)
		case o.requires(p):
			return nil, err
		default:
			o.leftOut(p, err)
		}
	}
	return out, nil
}

// unreachable is how busy a node counts that does not answer: any other one that
// fits goes before it.
const unreachable = 1 << 20

// weigh asks nodes among which there is a choice how busy they are.
func weigh(ctx context.Context, nodes []Node, candidates []Candidate, want []oci.Platform, sink report.Sink) {
	var wg sync.WaitGroup
	for _, i := range contested(want, candidates) {
		n, ok := nodes[i].(Busy)
		if !ok {
			continue
		}
		wg.Go(func() {
			var err error
			if candidates[i].Busy, err = n.Busy(ctx); err != nil {
				candidates[i].Busy = unreachable
				sink.Warn("", err.Error())
			}
		})
	}
	wg.Wait()
}

// ask fills in what the nodes list and returns the errors of those that did
// not answer, in the order of nodes.
func ask(ctx context.Context, nodes []Node, candidates []Candidate) []error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { candidates[i].Listed, errs[i] = n.Platforms(ctx) })
	}
	wg.Wait()
	return slices.DeleteFunc(errs, func(err error) bool { return err == nil })
}

func warnEmulated(as []Assignment, nodes []Node, sink report.Sink) {
	for _, a := range as {
		if !a.Emulated {
			continue
		}
		sink.Send(report.Event{
			Kind: report.Warning, Platform: oci.FormatPlatform(a.Platform), Node: nodes[a.Node].Name(),
			Text: "no node lists " + oci.FormatPlatform(a.Platform) + "; it is built under emulation",
		})
	}
}

func group(as []Assignment, nodes []Node) []job {
	byNode := make([]job, len(nodes))
	for _, a := range as {
		byNode[a.Node].node = nodes[a.Node]
		byNode[a.Node].platforms = append(byNode[a.Node].platforms, a.Platform)
	}
	return slices.DeleteFunc(byNode, func(j job) bool { return j.node == nil })
}

// reach has every node answer before any of several begins: the others would
// have pushed by the time a silent one is given up. With KeepGoing they are to
// build all the same.
func reach(ctx context.Context, jobs []job, o Options) error {
	if len(jobs) < 2 || o.KeepGoing {
		return nil
	}
	errs := make([]error, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		if (failure{job: j}).matters(o) {
			wg.Go(func() { _, errs[i] = j.node.Platforms(ctx) })
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for i, err := range errs {
		if err != nil {
			jobs[i].report(o.Report, report.Failed, err)
			return err
		}
	}
	return nil
}

// runJobs runs all jobs at once and returns whatever images came out.
func runJobs(ctx context.Context, jobs []job, o Options) ([]Image, error) {
	jobCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		images   []Image
		failures []failure
	)
	for _, j := range jobs {
		wg.Go(func() {
			got, err := j.run(jobCtx, o)
			mu.Lock()
			defer mu.Unlock()
			images = append(images, got...)
			if err == nil {
				return
			}
			f := failure{job: j, err: err}
			failures = append(failures, f)
			if !o.KeepGoing && f.matters(o) {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if len(failures) > 0 && context.Cause(ctx) != nil {
		return images, context.Cause(ctx)
	}
	return o.verdict(images, failures)
}

// verdict picks what Run reports. Failures arrive in their order, and the first
// one came before any cancellation.
func (o Options) verdict(images []Image, failures []failure) ([]Image, error) {
	var errs []error
	for _, f := range failures {
		errs = append(errs, f.err)
	}
	matter := slices.ContainsFunc(failures, func(f failure) bool { return f.matters(o) })
	switch {
	case len(errs) == 0:
		return images, nil
	case !matter:
		return o.without(images, failures)
	case o.KeepGoing:
		return images, errors.Join(errs...)
	}
	first := slices.IndexFunc(failures, func(f failure) bool { return f.matters(o) })
	return images, failures[first].err
}

func (j job) run(ctx context.Context, o Options) ([]Image, error) {
	j.report(o.Report, report.Started, nil)
	images, err := j.node.Build(ctx, Request{Platforms: j.platforms, KeepGoing: o.KeepGoing || len(o.Required) > 0})
	if err == nil {
		err = j.check(images)
	}
	if err != nil {
		err = j.named(err)
		j.report(o.Report, report.Failed, ownFailure(ctx, err))
		return images, err
	}
	for _, im := range images {
		o.Report.Send(report.Event{
			Kind: report.Build, State: report.Done, Node: j.node.Name(),
			Platform: oci.FormatPlatform(im.Platform), Digest: im.Manifest.Digest,
		})
	}
	return images, nil
}

// ownFailure is a cancellation when it was somebody else who failed: the cause
// that ended this job is shown where it arose.
func ownFailure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, cause) {
		return context.Canceled
	}
	return err
}

// check holds a node to its promise, so that no index is ever put together
// from fewer platforms than were asked for.
func (j job) check(images []Image) error {
	for _, p := range j.platforms {
		if find(images, p) < 0 {
			return &NodeError{Node: j.node.Name(), Platform: &p, Err: errors.New("the node returned no image")}
		}
	}
	if len(images) == 0 {
		return errors.New("the node returned no image")
	}
	return nil
}

// named makes sure that an error names its node, if it is that of a node.
func (j job) named(err error) error {
	var unreachable *UnreachableError
	var node *NodeError
	var destination *DestinationError
	if errors.As(err, &unreachable) || errors.As(err, &node) || errors.As(err, &destination) {
		return err
	}
	e := &NodeError{Node: j.node.Name(), Err: err}
	if len(j.platforms) == 1 {
		e.Platform = &j.platforms[0]
	}
	return e
}

// report sends one event for each platform that the state is about.
func (j job) report(sink report.Sink, state report.State, err error) {
	ps := j.platforms
	var node *NodeError
	if errors.As(err, &node) && node.Platform != nil {
		ps = []oci.Platform{*node.Platform}
	}
	if len(ps) == 0 {
		sink.Send(report.Event{Kind: report.Build, State: state, Node: j.node.Name(), Err: err})
	}
	for _, p := range ps {
		sink.Send(report.Event{Kind: report.Build, State: state, Node: j.node.Name(), Platform: oci.FormatPlatform(p), Err: err})
	}
}

func find(images []Image, p oci.Platform) int {
	key := oci.PlatformKey(p)
	return slices.IndexFunc(images, func(im Image) bool { return oci.PlatformKey(im.Platform) == key })
}

func inOrder(images []Image, platforms []oci.Platform) []Image {
	if len(platforms) == 0 {
		return images
	}
	var out []Image
	for _, p := range platforms {
		if i := find(images, p); i >= 0 {
			out = append(out, images[i])
		}
	}
	return out
}
