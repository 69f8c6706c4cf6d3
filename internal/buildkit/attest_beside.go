package buildkit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"golang.org/x/sync/errgroup"
)

// attestsBeside reports that one build can push the image and make its
// attestations. Only provenance can be kept out of what is pushed.
func attestsBeside(spec *Spec) bool {
	return slices.Equal(attested(spec), []string{provenance})
}

// push has the node build, and push plain images. Their provenance is made in the
// same build where that can be, and the results have it. A node may be too old for
// two exports, or not have what it made any more: it is asked to push then, and a
// second pass attests.
func (p *port) push(ctx context.Context, platforms []oci.Platform, repositories []string, keepGoing bool) ([]result, error) {
	plain := make([]target, len(platforms))
	for i, pl := range platforms {
		plain[i] = target{platform: pl, options: pushOptions(p.spec, pl, repositories)}
	}
	if !attestsBeside(p.spec) {
		return p.solve(ctx, plain, "", keepGoing)
	}
	both := make([]target, len(platforms))
	for i, pl := range platforms {
		both[i] = target{platform: pl, options: besideOptions(p.spec, pl, pushOptions(p.spec, pl, repositories))}
	}
	results, err := p.solve(ctx, both, "", keepGoing)
	if err != nil && takesOneExport(err) {
		return p.solve(ctx, plain, "", keepGoing)
	}
	lost := p.readBeside(ctx, results)
	if err == nil && lost != nil && ctx.Err() == nil {
		return p.pushAgain(ctx, plain, results, keepGoing)
	}
	return results, err
}

// pushAgain is a push of what was built and pushed by now; it took as long as both.
func (p *port) pushAgain(ctx context.Context, targets []target, before []result, keepGoing bool) ([]result, error) {
	took := map[string]time.Duration{}
	for _, r := range before {
		took[oci.PlatformKey(r.platform)] = r.took
	}
	results, err := p.solve(ctx, repeat(targets, repeated), "", keepGoing)
	for i := range results {
		results[i].took += took[oci.PlatformKey(results[i].platform)]
	}
	return results, err
}

// takesOneExport recognises buildx's word on nodes before BuildKit 0.13, which
// it gives before anything is built.
func takesOneExport(err error) bool {
	return strings.Contains(err.Error(), "multiple outputs currently unsupported")
}

// readBeside reads which image each push was of, and which attestations were made
// beside it.
func (p *port) readBeside(ctx context.Context, results []result) error {
	// What a failed build has pushed is read too, to be named.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), p.nodes.options.Timeout)
	defer cancel()
	from := p.content(ctx)
	if from == nil {
		return &ExportError{Reason: "the node is gone"}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i := range results {
		group.Go(func() (err error) {
			results[i].store = p.store()
			results[i].beside, err = readBeside(ctx, results[i], from)
			return err
		})
	}
	return group.Wait()
}

// beside is what a node made of one platform next to the image that it pushed.
type beside struct {
	image        oci.Descriptor
	attestations []oci.Entry // with an index of their own, which is left behind
	from         source
}

// readBeside reads the index that a build has left in the node's content store.
// Where BuildKit attests nothing, there is an image alone.
func readBeside(ctx context.Context, r result, from source) (*beside, error) {
	root, err := exported(r.response)
	if err != nil {
		return nil, err
	}
	// An export says this of an image, not of an index: here, of what was pushed.
	if r.response.ExporterResponse[exptypes.ExporterImageConfigDigestKey] == "" {
		return nil, &ExportError{Digest: root.Digest, Reason: "a list was pushed"}
	}
	if !oci.IsIndex(root.MediaType) {
		return &beside{image: root}, nil
	}
	b, err := r.store.fetchManifest(ctx, from, root)
	if err != nil {
		return nil, err
	}
	index, err := oci.ParseIndex(b)
	if err != nil {
		return nil, err
	}
	out := &beside{from: from}
	out.image, out.attestations, err = split(root.Digest, index)
	return out, err
}

// fetchBeside begins to read the attestations that were made beside pushes. The
// function that it returns waits for them: there is one for each result, nil where
// attestations are still to be made.
func fetchBeside(ctx context.Context, results []result) func() []*received {
	made := make([]*received, len(results))
	var wg sync.WaitGroup
	for i, r := range results {
		if r.beside == nil {
			continue
		}
		wg.Go(func() {
			var got received
			if r.attestations(ctx, &got) == nil {
				made[i] = &got
			}
		})
	}
	return func() []*received {
		wg.Wait()
		return made
	}
}

// join adds the attestations to the image that they were made for.
func (r *received) join(im *build.Image, s *Store) {
	im.Attestations, im.AttestationEntries = r.attestations, r.entries
	if len(r.attestations) > 0 {
		im.Content = s
	}
}

// attestations brings the attestations of an image to the store of a result.
func (r result) attestations(ctx context.Context, got *received) error {
	got.image.Descriptor = r.beside.image
	for _, e := range r.beside.attestations {
		if err := r.store.fetchAttestation(ctx, r.beside.from, e.Descriptor); err != nil {
			return err
		}
	}
	return got.addAttestations(r.store, r.beside.attestations)
}

// fetchAttestation brings an attestation manifest here, with its statements.
func (s *Store) fetchAttestation(ctx context.Context, from source, d oci.Descriptor) error {
	b, err := s.fetchManifest(ctx, from, d)
	if err != nil {
		return err
	}
	m, err := oci.ParseManifest(b)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, blob := range append([]oci.Descriptor{m.Config}, m.Layers...) {
		group.Go(func() error { return s.fetch(ctx, from, blob) })
	}
	return group.Wait()
}

func (s *Store) fetchManifest(ctx context.Context, from source, d oci.Descriptor) (oci.Blob, error) {
	if err := s.fetch(ctx, from, d); err != nil {
		return oci.Blob{}, err
	}
	return s.manifest(d)
}

// fetch brings a blob here, checked as one that a node writes.
func (s *Store) fetch(ctx context.Context, from source, d oci.Descriptor) error {
	body, err := from.open(ctx, d)
	if err != nil {
		return err
	}
	defer body.Close()
	return content.WriteBlob(ctx, s, d.Digest.String(), body, d)
}
