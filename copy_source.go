package manifold

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// Missing is content that a source refers to and does not have.
type Missing struct {
	// What it is: "manifest", "config", "layer".
	What   string
	Digest digest.Digest
	// Of is the platform that it belongs to, or another name for its place.
	Of string
}

// IncompleteError reports a source with holes. It lists all of them.
type IncompleteError struct {
	Root    digest.Digest
	Missing []Missing
}

func (e *IncompleteError) Error() string {
	parts := make([]string, len(e.Missing))
	for i, m := range e.Missing {
		parts[i] = fmt.Sprintf("%s: %s %s is not there", m.Of, m.What, m.Digest)
	}
	return fmt.Sprintf("%s is not whole: %s", e.Root, strings.Join(parts, "; "))
}

// gatherer reads content whole from one place. What was read once is not read
// again.
type gatherer struct {
	place place
	name  string // of the place, in plans
	// checkBlobs looks for every blob: done where that costs no request.
	checkBlobs bool

	known map[digest.Digest]publish.Manifest
}

// node is a manifest to be read, with a name for the place where it stands.
type node struct {
	oci.Descriptor
	of string
}

// gather reads every manifest below root, level by level and side by side in
// each, one request per manifest. Nothing else is asked of a registry. The error
// is an [*IncompleteError] when anything is not there, or an [*oci.DepthError].
func (g *gatherer) gather(ctx context.Context, root oci.Blob) ([]publish.Manifest, error) {
	out, _, err := g.gatherNamed(ctx, root)
	return out, err
}

// gatherNamed is gather with a name for the place of each manifest.
func (g *gatherer) gatherNamed(ctx context.Context, root oci.Blob) ([]publish.Manifest, map[digest.Digest]string, error) {
	w := walk{g: g, seen: map[digest.Digest]bool{root.Digest: true}}
	w.keep(root)
	level := []publish.Manifest{g.known[root.Digest]}
	names := map[digest.Digest]string{root.Digest: "the root"}
	for depth := 0; len(level) > 0; depth++ {
		if depth > oci.MaxDepth {
			return nil, nil, &oci.DepthError{Digest: level[0].Digest}
		}
		next, err := w.below(level, names)
		if err != nil {
			return nil, nil, err
		}
		if level, err = w.fetch(ctx, next); err != nil {
			return nil, nil, err
		}
	}
	if err := w.blobs(ctx, names); err != nil {
		return nil, nil, err
	}
	if len(w.missing) > 0 {
		return nil, nil, &IncompleteError{Root: root.Digest, Missing: w.missing}
	}
	return w.out, names, nil
}

// walk is one gathering under way.
type walk struct {
	g       *gatherer
	seen    map[digest.Digest]bool
	out     []publish.Manifest
	missing []Missing
}

// found is a manifest that was read from a place with a name. What was read by
// way of mirrors is not known to be at the place itself.
func found(b oci.Blob, p place, name string) publish.Manifest {
	at := []string{name}
	if s, ok := p.(*registry.Source); ok && s.Mirrored() {
		return publish.Manifest{Blob: b, Mirrored: at}
	}
	return publish.Manifest{Blob: b, At: at, Seen: at}
}

func (w *walk) keep(b oci.Blob) publish.Manifest {
	m, ok := w.g.known[b.Digest]
	if !ok {
		m = found(b, w.g.place, w.g.name)
		w.g.known[b.Digest] = m
	}
	w.out = append(w.out, m)
	return m
}

// below lists the manifests that the indexes of a level name, each once.
func (w *walk) below(level []publish.Manifest, names map[digest.Digest]string) ([]node, error) {
	var out []node
	for _, m := range level {
		if !oci.IsIndex(m.MediaType) {
			continue
		}
		idx, err := oci.ParseIndex(m.Blob)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Digest, err)
		}
		platforms := map[digest.Digest]string{}
		for _, e := range idx.Manifests {
			of := placeOf(e.Descriptor, platforms)
			if !oci.IsManifest(e.MediaType) || w.seen[e.Digest] {
				continue
			}
			w.seen[e.Digest], names[e.Digest] = true, of
			out = append(out, node{Descriptor: e.Descriptor, of: of})
		}
	}
	return out, nil
}

// placeOf names an entry of an index: its platform, or what it is; known holds
// those of the entries before it.
func placeOf(d oci.Descriptor, known map[digest.Digest]string) string {
	subject, attests := oci.IsAttestation(d)
	of := "an entry without a platform"
	switch {
	case attests && known[subject] != "":
		of = "attestation of " + known[subject]
	case attests:
		of = "attestation"
	case !oci.IsUnknownPlatform(d.Platform):
		of = oci.FormatPlatform(*d.Platform)
	case oci.IsIndex(d.MediaType):
		of = "nested index"
	}
	known[d.Digest] = of
	return of
}

// fetch reads manifests side by side and keeps them in their order.
func (w *walk) fetch(ctx context.Context, nodes []node) ([]publish.Manifest, error) {
	blobs := make([]oci.Blob, len(nodes))
	eg, ctx := errgroup.WithContext(ctx)
	for i, n := range nodes {
		if m, ok := w.g.known[n.Digest]; ok {
			blobs[i] = m.Blob
			continue
		}
		eg.Go(func() (err error) {
			blobs[i], err = w.g.place.FetchManifest(ctx, bare(n.Descriptor))
			if err != nil && absent(err) {
				return nil
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	var out []publish.Manifest
	for i, b := range blobs {
		if b.Bytes == nil {
			w.missing = append(w.missing, Missing{What: "manifest", Digest: nodes[i].Digest, Of: nodes[i].of})
			continue
		}
		out = append(out, w.keep(b))
	}
	return out, nil
}

// bare is a descriptor of which only what identifies content is left.
func bare(d oci.Descriptor) oci.Descriptor {
	return oci.Descriptor{MediaType: d.MediaType, Digest: d.Digest, Size: d.Size}
}

// blobs looks for every blob of what was read.
func (w *walk) blobs(ctx context.Context, names map[digest.Digest]string) error {
	if !w.g.checkBlobs {
		return nil
	}
	var mu sync.Mutex // guards found
	found := map[digest.Digest]bool{}
	eg, egctx := errgroup.WithContext(ctx)
	all := make([][]oci.Descriptor, len(w.out))
	for i, m := range w.out {
		refs, err := publish.BlobsOf(m.Blob)
		if err != nil {
			return err
		}
		all[i] = refs
		for _, d := range refs {
			eg.Go(func() error {
				there, err := w.g.place.StatBlob(egctx, d)
				mu.Lock()
				defer mu.Unlock()
				found[d.Digest] = there
				return err
			})
		}
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for i, m := range w.out {
		for k, d := range all[i] {
			if !found[d.Digest] {
				w.missing = append(w.missing, Missing{What: roleOf(m.MediaType, k), Digest: d.Digest, Of: names[m.Digest]})
			}
		}
	}
	return nil
}

// roleOf names the kth blob of a manifest.
func roleOf(mediaType string, k int) string {
	switch {
	case oci.IsIndex(mediaType):
		return "blob"
	case k == 0:
		return "config"
	}
	return "layer"
}
