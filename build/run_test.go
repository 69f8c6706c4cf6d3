package build

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// fake is a node that builds what build says, by default everything.
type fake struct {
	name             string
	declared, listed []oci.Platform
	err              error // of Platforms
	build            func(context.Context, Request) ([]Image, error)

	mu    sync.Mutex
	asked int
	got   []Request
}

func (f *fake) Name() string             { return f.name }
func (f *fake) Endpoint() string         { return "tcp://" + f.name }
func (f *fake) Declared() []oci.Platform { return f.declared }

func (f *fake) Platforms(context.Context) ([]oci.Platform, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.listed, f.err
}

func (f *fake) Build(ctx context.Context, req Request) ([]Image, error) {
	f.mu.Lock()
	f.got = append(f.got, req)
	f.mu.Unlock()
	if f.build != nil {
		return f.build(ctx, req)
	}
	return f.all(req), nil
}

func (f *fake) all(req Request) []Image {
	var out []Image
	for _, p := range slices.Backward(req.Platforms) {
		out = append(out, f.image(p))
	}
	if len(req.Platforms) == 0 {
		out = append(out, f.image(f.listed[0]))
	}
	return out
}

func (f *fake) image(p oci.Platform) Image {
	return Image{Platform: p, Node: f.name, Manifest: oci.Blob{Descriptor: oci.Descriptor{Digest: digest.FromString(f.name + oci.PlatformKey(p))}}}
}

func nodes(fs ...*fake) []Node {
	var out []Node
	for _, f := range fs {
		out = append(out, f)
	}
	return out
}

func built(images []Image) string {
	var out []string
	for _, im := range images {
		out = append(out, oci.FormatPlatform(im.Platform)+"="+im.Node)
	}
	return strings.Join(out, " ")
}

func TestImagesComeInTheOrderOfThePlatforms(t *testing.T) {
	a := &fake{name: "a", declared: parse(t, "linux/amd64 linux/386 linux/s390x")}
	b := &fake{name: "b", declared: parse(t, "linux/arm64 linux/arm/v7")}
	ps := parse(t, "linux/arm64 linux/s390x linux/arm/v7 linux/386 linux/arm64/v8 linux/amd64")
	images, err := Run(t.Context(), nodes(a, b), Options{Platforms: ps, KeepGoing: true})
	if err != nil {
		t.Fatal(err)
	}
	want := "linux/arm64=b linux/s390x=a linux/arm/v7=b linux/386=a linux/amd64=a"
	if diff := cmp.Diff(want, built(images)); diff != "" {
		t.Error(diff)
	}
	if len(a.got) != 1 || len(b.got) != 1 || !a.got[0].KeepGoing {
		t.Errorf("requests: %+v, %+v", a.got, b.got)
	}
	if a.asked+b.asked != 0 {
		t.Error("nodes were asked for what was declared")
	}
}

func TestNothingIsBuiltBesideANodeThatDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
		err  bool
	}{
		"required":            {Options{}, "", true},
		"optional":            {Options{Required: parse(t, "linux/amd64")}, "linux/amd64=a", false},
		"others are finished": {Options{KeepGoing: true}, "linux/amd64=a", true},
	} {
		t.Run(name, func(t *testing.T) {
			silent := &UnreachableError{Node: "b", Endpoint: "tcp://b", Waited: time.Second, Err: errors.New("connection refused")}
			a := &fake{name: "a", declared: parse(t, "linux/amd64")}
			b := &fake{name: "b", declared: parse(t, "linux/arm64"), err: silent}
			b.build = func(context.Context, Request) ([]Image, error) { return nil, silent }
			c.o.Platforms = parse(t, "linux/amd64 linux/arm64")
			images, err := Run(t.Context(), nodes(a, b), c.o)
			if built(images) != c.want || (err != nil) != c.err || c.err && !errors.Is(err, silent) {
				t.Errorf("%q, %v", built(images), err)
			}
			if (len(a.got) > 0) != (c.want != "") {
				t.Errorf("a was asked for %+v", a.got)
			}
		})
	}
}

func TestZeroOptionsBuildTheFirstNodesOwnPlatform(t *testing.T) {
	a := &fake{name: "a", listed: parse(t, "linux/riscv64")}
	images, err := Run(t.Context(), nodes(a, &fake{name: "b"}), Options{})
	if err != nil || built(images) != "linux/riscv64=a" {
		t.Errorf("%s, %v", built(images), err)
	}
}

func TestSilentNodeMattersOnlyIfItIsNeeded(t *testing.T) {
	silent := &UnreachableError{Node: "b", Endpoint: "tcp://b", Waited: 20 * time.Second, Err: errors.New("connection refused")}
	a := &fake{name: "a", listed: parse(t, "linux/amd64 linux/arm64")}
	b := &fake{name: "b", err: silent}
	var warned []string
	o := Options{Platforms: parse(t, "linux/amd64"), Report: func(e report.Event) {
		if e.Kind == report.Warning {
			warned = append(warned, e.Text)
		}
	}}
	images, err := Run(t.Context(), nodes(a, b), o)
	if err != nil || built(images) != "linux/amd64=a" {
		t.Errorf("%s, %v", built(images), err)
	}
	if diff := cmp.Diff([]string{"node b at tcp://b: no answer in 20s: connection refused"}, warned); diff != "" {
		t.Error(diff)
	}
	// Nobody else has this one, and emulation must not hide that b is gone.
	o.Platforms, o.AllowEmulation = parse(t, "linux/amd64 linux/s390x"), true
	if _, err := Run(t.Context(), nodes(a, b), o); err != error(silent) {
		t.Errorf("error %v", err)
	}
	if len(a.got) != 1 {
		t.Error("something was built before the refusal")
	}
}

func TestPlatformThatNobodyHasIsRefusedBeforeAnyBuild(t *testing.T) {
	a := &fake{name: "a", declared: parse(t, "linux/amd64"), listed: parse(t, "linux/amd64 linux/386")}
	o := Options{Platforms: parse(t, "linux/amd64 linux/s390x")}
	_, err := Run(t.Context(), nodes(a), o)
	var none *NoNodeError
	if !errors.As(err, &none) || none.Platform.Architecture != "s390x" || len(none.Nodes["a"]) != 2 {
		t.Errorf("error %v", err)
	}
	if len(a.got) != 0 {
		t.Error("built before the refusal")
	}
	var warned []report.Event
	o.AllowEmulation, o.Report = true, func(e report.Event) {
		if e.Kind == report.Warning {
			warned = append(warned, e)
		}
	}
	images, err := Run(t.Context(), nodes(a), o)
	if err != nil || built(images) != "linux/amd64=a linux/s390x=a" {
		t.Errorf("%s, %v", built(images), err)
	}
	if len(warned) != 1 || warned[0].Platform != "linux/s390x" || warned[0].Node != "a" {
		t.Errorf("warnings %+v", warned)
	}
	if _, err := Run(t.Context(), nil, o); !errors.As(err, &none) {
		t.Errorf("no nodes: %v", err)
	}
}

func TestFailureCancelsTheOthersAndIsTheOneReported(t *testing.T) {
	cause := errors.New("exit code 1")
	stopped := make(chan error, 1)
	a := &fake{name: "a", declared: parse(t, "linux/amd64")}
	a.build = func(ctx context.Context, req Request) ([]Image, error) {
		<-ctx.Done()
		stopped <- context.Cause(ctx)
		return a.all(req), ctx.Err() // it had pushed already
	}
	b := &fake{name: "b", declared: parse(t, "linux/arm64"), build: func(context.Context, Request) ([]Image, error) { return nil, cause }}
	var failed []string
	var mu sync.Mutex
	images, err := Run(t.Context(), nodes(a, b), Options{Platforms: parse(t, "linux/amd64 linux/arm64"), Report: func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.State == report.Failed {
			failed = append(failed, e.Node+" "+e.Platform)
		}
	}})
	var node *NodeError
	if !errors.As(err, &node) || node.Node != "b" || node.Platform.Architecture != "arm64" || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
	if got := err.Error(); got != "node b, linux/arm64: exit code 1" {
		t.Errorf("error %q", got)
	}
	if got := <-stopped; !errors.Is(got, cause) {
		t.Errorf("the other was stopped by %v", got)
	}
	if built(images) != "linux/amd64=a" {
		t.Errorf("what was pushed is not mentioned: %q", built(images))
	}
	slices.Sort(failed)
	if diff := cmp.Diff([]string{"a linux/amd64", "b linux/arm64"}, failed); diff != "" {
		t.Error(diff)
	}
}

func TestKeepGoingLetsTheOthersFinishAndFailsAllTheSame(t *testing.T) {
	a := &fake{name: "a", declared: parse(t, "linux/amd64"), build: func(context.Context, Request) ([]Image, error) { return nil, errors.New("one") }}
	c := &fake{name: "c", declared: parse(t, "linux/s390x"), build: func(context.Context, Request) ([]Image, error) { return nil, errors.New("two") }}
	b := &fake{name: "b", declared: parse(t, "linux/arm64")}
	b.build = func(ctx context.Context, req Request) ([]Image, error) { return b.all(req), ctx.Err() }
	images, err := Run(t.Context(), nodes(a, b, c), Options{Platforms: parse(t, "linux/amd64 linux/arm64 linux/s390x"), KeepGoing: true})
	if err == nil || !strings.Contains(err.Error(), "one") || !strings.Contains(err.Error(), "two") || strings.Contains(err.Error(), "cancel") {
		t.Errorf("error %v", err)
	}
	if built(images) != "linux/arm64=b" {
		t.Errorf("images %q", built(images))
	}
}

func TestCallersCancellationIsNoNodesFailure(t *testing.T) {
	stop := errors.New("stopped by the user")
	ctx, cancel := context.WithCancelCause(t.Context())
	a := &fake{name: "a", declared: parse(t, "linux/amd64"), build: func(ctx context.Context, _ Request) ([]Image, error) {
		cancel(stop)
		<-ctx.Done()
		return nil, errors.New("rpc error: canceled")
	}}
	if _, err := Run(ctx, nodes(a), Options{Platforms: parse(t, "linux/amd64")}); err != stop {
		t.Errorf("error %v", err)
	}
	asking := &fake{name: "b", err: ctx.Err()}
	if _, err := Run(ctx, nodes(asking), Options{Platforms: parse(t, "linux/amd64")}); err != stop {
		t.Errorf("while asking: %v", err)
	}
}

// An index must never be put together from what a node forgot.
func TestNodeThatReturnsTooLittleHasFailed(t *testing.T) {
	a := &fake{name: "a", declared: parse(t, "linux/amd64 linux/arm64")}
	a.build = func(context.Context, Request) ([]Image, error) { return []Image{a.image(a.declared[0])}, nil }
	_, err := Run(t.Context(), nodes(a), Options{Platforms: a.declared})
	var node *NodeError
	if !errors.As(err, &node) || node.Platform == nil || node.Platform.Architecture != "arm64" {
		t.Errorf("error %v", err)
	}
	a.build = func(context.Context, Request) ([]Image, error) { return nil, nil }
	if _, err := Run(t.Context(), nodes(a), Options{}); !errors.As(err, &node) || node.Node != "a" {
		t.Errorf("own platform: %v", err)
	}
}

func TestErrorsOfNodesKeepTheirType(t *testing.T) {
	p := parse(t, "linux/amd64")
	for _, want := range []error{
		&UnreachableError{Node: "a", Endpoint: "tcp://a", Waited: 1500 * time.Millisecond},
		&NodeError{Node: "a", Platform: &p[0], Err: errors.New("x")},
	} {
		a := &fake{name: "a", declared: p, build: func(context.Context, Request) ([]Image, error) { return nil, want }}
		if _, err := Run(t.Context(), nodes(a), Options{Platforms: p}); err != want {
			t.Errorf("%v became %v", want, err)
		}
	}
}

func TestWhereImagesGoIsNoFaultOfTheNode(t *testing.T) {
	refused := errors.New("registry says no")
	amd, arm := parse(t, "linux/amd64"), parse(t, "linux/arm64")
	a := &fake{name: "a", declared: amd, build: func(context.Context, Request) ([]Image, error) {
		return nil, &DestinationError{Platform: &amd[0], Err: refused}
	}}
	b := &fake{name: "b", declared: arm, build: func(ctx context.Context, _ Request) ([]Image, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	var mu sync.Mutex
	states := map[string]error{}
	sink := report.Sink(func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		if e.Kind == report.Build && e.State == report.Failed {
			states[e.Node] = e.Err
		}
	})
	_, err := Run(t.Context(), nodes(a, b), Options{Platforms: append(amd, arm...), Report: sink})
	var node *NodeError
	if errors.As(err, &node) || err == nil || err.Error() != "linux/amd64: registry says no" {
		t.Errorf("error %v", err)
	}
	if !errors.Is(states["a"], refused) || !errors.Is(states["b"], context.Canceled) {
		t.Errorf("shown %v", states)
	}
	// An optional platform is left out for it, as for any other failure.
	b.build = nil
	images, err := Run(t.Context(), nodes(a, b), Options{Platforms: append(amd, arm...), Required: arm})
	if err != nil || built(images) != "linux/arm64=b" {
		t.Errorf("%s, %v", built(images), err)
	}
}
