package buildkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/driver"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// Build builds each platform as a target of its own. A node that can push by
// digest pushes its images itself, and their attestations, which it makes beside
// that or in a second pass, come to the client; a node that cannot, or may not,
// hands everything over.
//
// Errors: *build.UnreachableError, *DriverError, *build.NodeError,
// *build.DestinationError, or the cause of ctx.
func (p *port) Build(ctx context.Context, req build.Request) ([]build.Image, error) {
	listed, err := p.Platforms(ctx)
	if err != nil {
		return nil, err
	}
	platforms := req.Platforms
	if len(platforms) == 0 {
		platforms = []oci.Platform{oci.NormalizePlatform(listed[0])}
	}
	if err := checkSpec(p.spec); err != nil {
		return nil, p.fault(nil, err)
	}
	if p.files != nil {
		return p.write(ctx, platforms, req.KeepGoing)
	}
	w, err := p.way(ctx)
	switch {
	case err != nil:
		return nil, err
	case w == hands:
		return p.relay(ctx, p.handed(ctx, platforms), req.KeepGoing)
	case w == saves:
		return p.engine(ctx, platforms, req.KeepGoing)
	}
	return p.direct(ctx, platforms, req.KeepGoing)
}

// way is how the images of this node get to where they are published.
func (p *port) way(ctx context.Context) (way, error) {
	handle := p.machine.Driver
	if !handle.IsMobyDriver() {
		if p.o.Relay || p.relays == nil {
			return hands, nil
		}
		return pushes, nil
	}
	features, err := handle.Features(ctx)
	if err != nil {
		return 0, p.fault(nil, err)
	}
	if !features[driver.OCIExporter] {
		return saves, nil
	}
	return hands, nil
}

// direct lets the node push, and has the attestations brought if there are to be
// any. What a node has built and could not push is relayed.
func (p *port) direct(ctx context.Context, platforms []oci.Platform, keepGoing bool) ([]build.Image, error) {
	repos, err := repositories(p.spec.Names)
	if err != nil {
		return nil, p.fault(nil, err)
	}
	names := make([]string, len(repos))
	for i, r := range repos {
		names[i] = r.Name()
	}
	results, err := p.push(ctx, platforms, names, keepGoing)
	if err != nil && p.couldNotPush(ctx, err) {
		p.o.Report.Warn(p.Name(), fmt.Sprintf("the node could not push, what it has built passes through here: %v", err))
		images, err := p.relay(ctx, repeat(p.handed(ctx, platforms), cached), keepGoing)
		if err != nil { // then nobody else speaks of what was pushed
			images = append(images, p.unread(results)...)
		}
		return images, err
	}
	if err != nil && (!keepGoing || ctx.Err() != nil) {
		return p.unread(results), err
	}
	images, unfinished := p.finish(ctx, results, repos, keepGoing)
	return images, joined([]error{err, unfinished})
}

// finish reads what was pushed and brings its attestations. What fails for one
// platform takes nothing from the others.
func (p *port) finish(ctx context.Context, results []result, repos []ref.Reference, keepGoing bool) ([]build.Image, error) {
	beside := fetchBeside(ctx, results)
	images, errs := p.readPushed(ctx, results, repos)
	made := beside()
	var open []*build.Image
	for i := range images {
		switch {
		case errs[i] != nil:
		case made[i] != nil:
			made[i].join(&images[i], results[i].store)
		default:
			open = append(open, &images[i])
		}
	}
	errs = append(errs, p.attest(ctx, open, keepGoing))
	return slices.DeleteFunc(images, func(im build.Image) bool { return im.Manifest.Digest == "" }), joined(errs)
}

// couldNotPush reports that a node has built its images and the push failed.
// BuildKit gives up on faults that a relayed push survives, and the client may
// have a login or a way that the node has not. The build is in the node's cache.
func (p *port) couldNotPush(ctx context.Context, err error) bool {
	return p.relays != nil && ctx.Err() == nil && strings.Contains(err.Error(), "failed to push ")
}

// unread makes images of what was pushed before a failure, for the record.
func (p *port) unread(results []result) []build.Image {
	var images []build.Image
	for _, r := range results {
		im := p.image(r)
		var err error
		if im.Manifest.Descriptor, err = r.image(); err == nil {
			im.Pushed = true
			images = append(images, im)
		}
	}
	return images
}

// readPushed makes an image of each result, with an error where it could not be
// read back: such an image has no bytes, or not even a digest.
func (p *port) readPushed(ctx context.Context, results []result, repos []ref.Reference) ([]build.Image, []error) {
	images, errs := make([]build.Image, len(results)), make([]error, len(results))
	for i, r := range results {
		var err error
		if images[i], err = p.pushed(ctx, r, repos); err != nil {
			errs[i] = p.blame(&r.platform, err)
		}
	}
	return images, errs
}

func (p *port) pushed(ctx context.Context, r result, repos []ref.Reference) (build.Image, error) {
	im := p.image(r)
	d, err := r.image()
	if err != nil {
		return im, err
	}
	im.Manifest.Descriptor, im.Pushed = d, true
	if !oci.IsImageManifest(d.MediaType) {
		return im, &ExportError{Digest: d.Digest, Reason: "the frontend made a " + d.MediaType + " where one image was asked for"}
	}
	if im.Manifest, err = readBack(ctx, p.o.Registry, repos, d); err != nil {
		im.Manifest.Descriptor = d
		return im, err
	}
	m, err := oci.ParseManifest(im.Manifest)
	im.Config = m.Config.Digest
	return im, err
}

func (p *port) image(r result) build.Image {
	return build.Image{Platform: r.platform, Node: p.Name(), Response: r.response.ExporterResponse, Duration: r.took}
}

// attest runs the second pass and adds what it brought to images.
func (p *port) attest(ctx context.Context, images []*build.Image, keepGoing bool) error {
	if len(attested(p.spec)) == 0 {
		return nil
	}
	var errs []error
	var targets []target
	of := map[string]*build.Image{}
	for _, im := range images {
		present, err := presentBlobs(im.Manifest)
		if err != nil {
			errs = append(errs, p.fault(&im.Platform, err))
			continue
		}
		s := p.store(present...)
		targets = append(targets, target{platform: im.Platform, store: s, options: attestOptions(p.spec, im.Platform, s)})
		of[oci.PlatformKey(im.Platform)] = im
	}
	if len(targets) == 0 {
		return joined(errs)
	}
	results, err := p.solve(ctx, targets, attestationLabel, keepGoing)
	errs = append(errs, err)
	for _, r := range results {
		if err := p.addAttestations(of[oci.PlatformKey(r.platform)], r); err != nil {
			errs = append(errs, p.fault(&r.platform, err))
		}
	}
	return joined(errs)
}

func (p *port) addAttestations(im *build.Image, r result) error {
	root, err := exported(r.response)
	if err != nil {
		return err
	}
	got, err := readReceived(r.store, root)
	if err != nil {
		return err
	}
	im.Duration += r.took
	replaced, err := got.apply(im, r.store)
	if replaced {
		p.nodes.options.Report.Warn(oci.FormatPlatform(im.Platform), fmt.Sprintf(
			"the build made another image when it was attested, %s instead of %s; the later one is used", im.Manifest.Digest, im.Leftovers[len(im.Leftovers)-1]))
	}
	return err
}

// handed are the targets of a node that hands everything over.
func (p *port) handed(ctx context.Context, platforms []oci.Platform) []target {
	var targets []target
	for _, pl := range platforms {
		s := p.store()
		s.relay, s.source = p.relays, p.content(ctx)
		targets = append(targets, target{platform: pl, store: s, options: storeOptions(p.spec, pl, s)})
	}
	return targets
}

// repeat has targets built once more, with options that say what the first build
// has left: [cached] or [repeated].
func repeat(targets []target, as func(buildx.Options) buildx.Options) []target {
	for i := range targets {
		targets[i].options = as(targets[i].options)
	}
	return targets
}

// relay has the node hand everything over.
func (p *port) relay(ctx context.Context, targets []target, keepGoing bool) ([]build.Image, error) {
	results, err := p.export(ctx, targets, keepGoing)
	var images []build.Image
	errs := []error{err}
	for _, r := range results {
		im, err := p.relayed(r)
		if err != nil {
			errs = append(errs, p.fault(&r.platform, err))
			continue
		}
		images = append(images, im)
	}
	return images, joined(errs)
}

// export solves, and again when a registry failed in a way that may pass while
// bytes went through: the node has all steps in its cache, and the stores say
// what has arrived.
func (p *port) export(ctx context.Context, targets []target, keepGoing bool) ([]result, error) {
	for n := 1; ; n++ {
		results, err := p.solve(ctx, targets, "", keepGoing)
		causes := relayFailures(targets)
		if err == nil || len(causes) == 0 || context.Cause(ctx) != nil {
			return results, err
		}
		if n == relayAttempts || !registry.Passing(causes[0].err) {
			return results, p.blamed(err, causes)
		}
		p.nodes.options.Report.Warn(p.relays.repo.Name(), fmt.Sprintf("%v; node %s is asked again", causes[0].err, p.Name()))
		targets = repeat(targets, cached)
	}
}

// relayFailure is what a registry said to the export of a platform.
type relayFailure struct {
	platform oci.Platform
	err      error
}

func relayFailures(targets []target) []relayFailure {
	var out []relayFailure
	for _, t := range targets {
		if err := t.store.takeFailure(); err != nil {
			out = append(out, relayFailure{t.platform, err})
		}
	}
	return out
}

// blamed puts what the registry said in place of what the node made of it; what
// failed on other platforms stays.
func (p *port) blamed(err error, causes []relayFailure) error {
	var errs []error
	of := map[string]bool{}
	for _, c := range causes {
		errs = append(errs, p.blame(&c.platform, c.err))
		of[oci.PlatformKey(c.platform)] = true
	}
	for _, part := range build.Parts(err) {
		var node *build.NodeError
		if errors.As(part, &node) && node.Platform != nil && !of[oci.PlatformKey(*node.Platform)] {
			errs = append(errs, part)
		}
	}
	return joined(errs)
}

func (p *port) relayed(r result) (build.Image, error) {
	root, err := exported(r.response)
	if err != nil {
		return build.Image{}, err
	}
	got, err := readReceived(r.store, root)
	if err != nil {
		return build.Image{}, err
	}
	m, err := oci.ParseManifest(got.image)
	if err != nil {
		return build.Image{}, err
	}
	im := p.image(r)
	im.Manifest, im.Config, im.Content = got.image, m.Config.Digest, r.store
	im.Attestations, im.AttestationEntries, im.Relayed = got.attestations, got.entries, r.store.inRegistry()
	return im, r.store.complete(m)
}

func (p *port) store(present ...oci.Descriptor) *Store {
	s := NewStore(p.nodes.options.TempDir, present...)
	p.nodes.onClose(s.Close)
	return s
}

// blame names the node, or leaves it out when it was the client that did not get
// on with the registry.
func (p *port) blame(platform *oci.Platform, err error) error {
	var answered *registry.Error
	var lost *LostError
	if errors.As(err, &answered) && !errors.As(err, &lost) && !errors.Is(err, errAbandoned) {
		return &build.DestinationError{Platform: platform, Err: err}
	}
	return p.fault(platform, err)
}

// fault names node and platform, and hides what addresses in the error of a node
// have of logins and tokens.
func (p *port) fault(platform *oci.Platform, err error) error {
	return &build.NodeError{Node: p.Name(), Platform: platform, Err: redact.Error(err)}
}
