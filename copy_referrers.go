package manifold

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/clock"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// ReferrersError reports a target where referrers would not be found: it has no
// referrers API, and the tags that take its place were not asked for; or it does
// not list what was copied.
type ReferrersError struct {
	Target ref.Reference
	Reason string
}

func (e *ReferrersError) Error() string { return fmt.Sprintf("%s: %s", e.Target.Name(), e.Reason) }

// lister lists what refers to a manifest.
type lister interface {
	Referrers(ctx context.Context, d digest.Digest) ([]oci.Descriptor, error)
}

// attach adds what goes along with the content: referrers and cosign's tags.
func (c *copier) attach(ctx context.Context) error {
	if c.o.Referrers {
		if err := c.referrers(ctx); err != nil {
			return at(c.o.Source, err)
		}
		if err := c.listReferrers(ctx); err != nil {
			return err
		}
	}
	if c.o.Cosign {
		return at(c.o.Source, c.cosign(ctx))
	}
	return nil
}

// referrers adds what refers to the content, wave after wave: one request per
// manifest that is copied, and one per referrer.
func (c *copier) referrers(ctx context.Context) error {
	source, ok := c.from.place.(lister)
	if !ok {
		return nil // docker save and engines keep none
	}
	c.listed = map[digest.Digest][]oci.Descriptor{}
	seen := map[digest.Digest]bool{}
	wave := c.contents(seen)
	for depth := 0; len(wave) > 0; depth++ {
		if depth > oci.MaxDepth {
			return &oci.DepthError{Digest: wave[0].Digest}
		}
		found, err := list(ctx, source, wave)
		if err != nil {
			return err
		}
		before := len(c.items)
		for i, subject := range wave {
			if err := c.refer(ctx, subject, found[i], seen); err != nil {
				return err
			}
		}
		wave = nil
		for _, item := range c.items[before:] {
			wave = append(wave, fresh(item, seen)...)
		}
	}
	return nil
}

// contents are the manifests of all items, each once.
func (c *copier) contents(seen map[digest.Digest]bool) []oci.Descriptor {
	var out []oci.Descriptor
	for _, item := range c.items {
		out = append(out, fresh(item, seen)...)
	}
	return out
}

func fresh(item publish.Item, seen map[digest.Digest]bool) []oci.Descriptor {
	var out []oci.Descriptor
	for _, m := range append([]publish.Manifest{{Blob: item.Root}}, item.Manifests...) {
		if !seen[m.Digest] {
			seen[m.Digest] = true
			out = append(out, m.Descriptor)
		}
	}
	return out
}

// list asks for the referrers of each manifest, side by side.
func list(ctx context.Context, source lister, of []oci.Descriptor) ([][]oci.Descriptor, error) {
	out := make([][]oci.Descriptor, len(of))
	eg, ctx := errgroup.WithContext(ctx)
	for i, d := range of {
		eg.Go(func() (err error) {
			out[i], err = source.Referrers(ctx, d.Digest)
			return err
		})
	}
	return out, eg.Wait()
}

// refer adds the referrers of one manifest. What is copied as content already,
// as BuildKit's attestations inside an index, is no item of its own.
func (c *copier) refer(ctx context.Context, subject oci.Descriptor, found []oci.Descriptor, seen map[digest.Digest]bool) error {
	for _, d := range oci.Unique(found) {
		if !oci.IsManifest(d.MediaType) || d.Digest == subject.Digest {
			continue
		}
		if !seen[d.Digest] {
			b, err := c.referrer(ctx, d)
			if err != nil {
				return err
			}
			if b.Bytes == nil {
				continue
			}
			d = oci.Referrer(b) // registries have been seen to list something else
		}
		if len(c.listed[subject.Digest]) == 0 {
			c.subjects = append(c.subjects, subject)
		}
		c.listed[subject.Digest] = append(c.listed[subject.Digest], d)
	}
	return nil
}

// referrer adds one referrer as an item without a tag. It has no bytes when it
// is listed and not there.
func (c *copier) referrer(ctx context.Context, d oci.Descriptor) (oci.Blob, error) {
	b, err := c.from.place.FetchManifest(ctx, bare(d))
	if err != nil && absent(err) {
		c.m.o.Report.Warn(c.o.Source.String(), fmt.Sprintf("referrer %s is listed and is not there, it is left out", d.Digest))
		return oci.Blob{}, nil
	}
	if err != nil || slices.ContainsFunc(c.items, func(i publish.Item) bool { return i.Root.Digest == d.Digest }) {
		return b, err
	}
	manifests, err := c.from.gather(ctx, b)
	if err != nil {
		return b, err
	}
	repos := make([]ref.Reference, len(c.targets))
	for i, t := range c.targets {
		repos[i] = t.Repo()
	}
	c.items = append(c.items, publish.Item{Content: publish.Content{Root: b, Manifests: manifests}, Targets: repos})
	c.images[0].Referrers = append(c.images[0].Referrers, d.Digest)
	return b, nil
}

// listReferrers makes sure that every target will list the referrers: by its
// API, or by the tags that take its place.
func (c *copier) listReferrers(ctx context.Context) error {
	if len(c.subjects) == 0 {
		return nil
	}
	done := map[ref.Reference]bool{}
	for _, t := range c.targets {
		repo := t.Repo()
		if done[repo] {
			continue
		}
		done[repo] = true
		api, err := c.hasAPI(ctx, repo)
		switch {
		case err != nil:
			return err
		case api:
			c.withAPI = append(c.withAPI, repo)
			continue
		case !c.o.FallbackTags && repo.AsLocation().Transport == ref.Registry:
			return &ReferrersError{Target: repo, Reason: "has no referrers API, so that nobody would find the referrers"}
		}
		if err := c.fallback(ctx, repo); err != nil {
			return err
		}
	}
	return nil
}

func (c *copier) hasAPI(ctx context.Context, repo ref.Reference) (bool, error) {
	if repo.AsLocation().Transport != ref.Registry {
		return false, nil
	}
	return c.m.reg.Repository(repo).HasReferrers(ctx, c.subjects[0].Digest)
}

// fallback adds the tags that list the referrers in one repository. What such a
// tag lists already stays listed.
func (c *copier) fallback(ctx context.Context, repo ref.Reference) error {
	for _, subject := range c.subjects {
		tag := string(subject.Digest.Algorithm()) + "-" + subject.Digest.Encoded()
		base, err := c.m.target(repo).Manifest(ctx, tag)
		if err != nil && !absent(err) {
			return err
		}
		was := &base
		if err != nil {
			was = nil
		}
		made, err := index.Referrers(was, c.listed[subject.Digest])
		if err != nil {
			return fmt.Errorf("%s: %w", repo.WithTag(tag), err)
		}
		if was != nil && was.Digest == made.Digest {
			continue
		}
		// Its entries are items of their own, or at the target already.
		c.items = append(c.items, publish.Item{Content: publish.Content{Root: made}, Targets: []ref.Reference{repo.WithTag(tag)}, Held: true})
	}
	return nil
}

// confirmReferrers asks each target with the API whether it lists what was
// copied, and waits for it within the lag window.
func (c *copier) confirmReferrers(ctx context.Context) error {
	for _, repo := range c.withAPI {
		for _, subject := range c.subjects {
			if err := c.confirmListed(ctx, repo, subject.Digest); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultLag is the window of package apply.
const defaultLag = 30 * time.Second

func (c *copier) confirmListed(ctx context.Context, repo ref.Reference, subject digest.Digest) error {
	lag := c.m.o.Lag
	if lag == 0 {
		lag = defaultLag
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		found, err := c.m.reg.Repository(repo).Referrers(ctx, subject)
		if err != nil {
			return err
		}
		lost := unlisted(c.listed[subject], found)
		if len(lost) == 0 {
			c.m.o.Report.Send(report.Event{Kind: report.ReadBack, State: report.Done, Target: repo.Name(), Digest: subject})
			return nil
		}
		if lag -= pause; lag < 0 {
			return &ReferrersError{Target: repo, Reason: fmt.Sprintf("took the referrers of %s and does not list %s", subject, strings.Join(lost, ", "))}
		}
		if err := clock.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

func unlisted(want, have []oci.Descriptor) []string {
	var out []string
	for _, d := range want {
		if !slices.ContainsFunc(have, func(h oci.Descriptor) bool { return h.Digest == d.Digest }) {
			out = append(out, d.Digest.String())
		}
	}
	return out
}
