package publish

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// probe reads what a target holds: its tags, by one HEAD each, and a GET where
// one names something else; and what a mirror of it has given. Where a tag is right already, the manifests below it
// are looked for, one HEAD each, so that a publish that happened is found to
// have happened; with o.Stat their blobs too, one HEAD each.
func probe(ctx context.Context, t *target, o Options) error {
	p := o.Open(t.repo)
	eg, egctx := errgroup.WithContext(ctx)
	for i := range t.tags {
		eg.Go(func() error { return probeTag(egctx, p, t, &t.tags[i], o) })
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	t.present, t.blobs, t.broken = map[digest.Digest]bool{}, map[digest.Digest]bool{}, map[digest.Digest]bool{}
	if err := probeManifests(ctx, p, t, o); err != nil || o.Stat == nil {
		return err
	}
	return probeBlobs(ctx, t, o)
}

// probeManifests finds which manifests a target has already, of the contents
// that it seems to have.
func probeManifests(ctx context.Context, p Prober, t *target, o Options) error {
	for _, g := range t.tags {
		if g.right() {
			t.present[g.root.Digest] = true
		}
	}
	ask := slices.DeleteFunc(append(t.likely(o), t.mirrored()...), func(m Manifest) bool { return t.present[m.Digest] || t.read(m) })
	slices.SortFunc(ask, func(a, b Manifest) int { return strings.Compare(string(a.Digest), string(b.Digest)) })
	ask = slices.CompactFunc(ask, func(a, b Manifest) bool { return a.Digest == b.Digest })
	there := make([]bool, len(ask))
	eg, ctx := errgroup.WithContext(ctx)
	for i, m := range ask {
		eg.Go(func() error {
			_, err := p.Resolve(ctx, m.Digest.String())
			there[i] = err == nil
			if err != nil && !o.Absent(err) {
				return err
			}
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for i, m := range ask {
		if there[i] {
			t.present[m.Digest] = true
		}
	}
	return nil
}

// likely are the manifests of the contents that a right tag names; beside a
// right tag, or in a thorough run, also those of contents that have no tag.
func (t *target) likely(o Options) []Manifest {
	right := slices.ContainsFunc(t.tags, tag.right)
	var out []Manifest
	for _, c := range t.contents {
		named, ok := t.names(c.root)
		if named && ok || !named && (right || o.Stat != nil) {
			out = append(out, c.ordered...)
		}
	}
	return out
}

// mirrored are the manifests that a mirror of the target has given.
func (t *target) mirrored() []Manifest {
	return slices.DeleteFunc(slices.Clone(t.ordered), func(m Manifest) bool { return !slices.Contains(m.Mirrored, t.repo.Name()) })
}

// names reports whether a tag of the target is to name root, and whether one
// does so already.
func (t *target) names(root digest.Digest) (named, right bool) {
	for _, g := range t.tags {
		if g.root.Digest == root {
			named, right = true, right || g.right()
		}
	}
	return named, right
}

// read reports whether this run has read the very manifest at this target.
func (t *target) read(m Manifest) bool { return slices.Contains(m.Seen, t.repo.Name()) }

// holds reports whether the target has a manifest and all it points at.
func (t *target) holds(m Manifest) bool {
	return (t.present[m.Digest] || slices.Contains(m.At, t.repo.Name())) && !t.broken[m.Digest]
}

// probeBlobs looks for the blobs of the manifests that are there. A manifest
// that misses one is as good as absent.
func probeBlobs(ctx context.Context, t *target, o Options) error {
	of := map[digest.Digest][]oci.Descriptor{} // by manifest
	var all []oci.Descriptor
	for _, m := range t.ordered {
		if !t.holds(m) {
			continue
		}
		found, err := BlobsOf(m.Blob)
		if err != nil {
			return err
		}
		of[m.Digest] = found
		all = append(all, found...)
	}
	if err := t.stat(ctx, oci.Unique(all), o); err != nil {
		return err
	}
	for d, blobs := range of {
		t.broken[d] = slices.ContainsFunc(blobs, func(b oci.Descriptor) bool { return !t.blobs[b.Digest] })
	}
	return nil
}

// stat looks for each blob. One of another size than it should have is not
// there.
func (t *target) stat(ctx context.Context, all []oci.Descriptor, o Options) error {
	there := make([]bool, len(all))
	eg, ctx := errgroup.WithContext(ctx)
	for i, d := range all {
		eg.Go(func() (err error) {
			there[i], err = o.Stat(ctx, t.repo, d)
			var wrong *oci.MismatchError
			if errors.As(err, &wrong) {
				there[i], err = false, nil
			}
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return err
	}
	for i, d := range all {
		t.blobs[d.Digest] = there[i]
	}
	return nil
}
