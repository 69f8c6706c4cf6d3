package manifold

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// readTags makes an item of every tag that is wanted.
func (c *copier) readTags(ctx context.Context) error {
	tags, err := c.m.Tags(ctx, c.o.Source, c.o.Tags...)
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(tags, listsReferrers)
	if n := len(tags) - len(kept); n > 0 {
		c.m.o.Report.Warn(c.o.Source.String(), fmt.Sprintf("%d tags that list referrers are left out: --referrers copies what they list", n))
	}
	if len(kept) == 0 {
		return errors.New("no tag to copy")
	}
	for _, tag := range kept {
		if !ref.IsTag(tag) {
			return fmt.Errorf("%s: %q cannot be a tag", c.o.Source, tag)
		}
		if err := c.readTag(ctx, tag); err != nil {
			return fmt.Errorf("tag %s: %w", tag, err)
		}
	}
	return nil
}

// listsReferrers reports a tag that takes the place of the referrers API.
func listsReferrers(tag string) bool {
	_, kind, ok := oci.Companion(tag)
	return ok && kind == ""
}

func (c *copier) readTag(ctx context.Context, tag string) error {
	source := withTag(c.o.Source, tag)
	root, err := c.m.resolve(ctx, source)
	if err != nil {
		return err
	}
	content, err := c.content(ctx, root)
	if err != nil {
		return err
	}
	c.add(source, content, c.tagged(tag))
	return nil
}

// withTag is another tag at the same place.
func withTag(l ref.Location, tag string) ref.Location {
	if l.Transport == ref.Registry {
		l.Reference = l.Reference.WithTag(tag)
		return l
	}
	l.Tag = tag
	return l
}

// matches reports whether a tag matches one of the patterns, or there are none.
func matches(patterns []string, tag string) (bool, error) {
	for _, p := range patterns {
		ok, err := path.Match(p, tag)
		if err != nil {
			return false, &PatternError{Pattern: p}
		}
		if ok {
			return true, nil
		}
	}
	return len(patterns) == 0, nil
}

// cosign adds the tags by which cosign binds signatures, attestations and SBOMs
// to what is copied. The tags of the source are listed once.
func (c *copier) cosign(ctx context.Context) error {
	tags, err := c.m.Tags(ctx, c.o.Source)
	if err != nil {
		return err
	}
	copied := map[digest.Digest]bool{}
	for _, item := range c.items {
		for _, m := range append([]publish.Manifest{{Blob: item.Root}}, item.Manifests...) {
			copied[m.Digest] = true
		}
	}
	for _, tag := range tags {
		subject, kind, _ := oci.Companion(tag)
		if kind == "" || !copied[subject] || c.names(tag) {
			continue
		}
		root, err := c.m.resolve(ctx, withTag(c.o.Source, tag))
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag, err)
		}
		manifests, err := c.from.gather(ctx, root)
		if err != nil {
			return fmt.Errorf("tag %s: %w", tag, err)
		}
		c.items = append(c.items, publish.Item{Content: publish.Content{Root: root, Manifests: manifests}, Targets: c.tagged(tag)})
		c.images[0].Cosign = append(c.images[0].Cosign, tag)
	}
	return nil
}

// names reports whether a tag is copied already.
func (c *copier) names(tag string) bool {
	return slices.ContainsFunc(c.items, func(item publish.Item) bool {
		return slices.ContainsFunc(item.Targets, func(r ref.Reference) bool { return r.Tag == tag })
	})
}
