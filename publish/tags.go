package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// probeTag reads what a tag names. Where it names something else than it shall,
// the bytes are read too: they are what a restore would put back, and they tell
// which platforms the move takes away.
func probeTag(ctx context.Context, p Prober, t *target, g *tag, o Options) error {
	d, err := p.Resolve(ctx, g.name)
	switch {
	case err != nil && o.Absent(err):
		return nil
	case err != nil:
		return err
	}
	o.Report.Send(report.Event{Kind: report.Resolve, State: report.Done, Target: t.repo.WithTag(g.name).String(), Digest: d.Digest})
	g.previous = oci.Blob{Descriptor: d}
	if g.right() {
		return nil
	}
	b, err := p.FetchManifest(ctx, oci.Descriptor{Digest: d.Digest, MediaType: d.MediaType})
	switch {
	case err == nil:
		g.previous = b
	case o.Absent(err):
		o.Report.Warn(t.repo.WithTag(g.name).String(), fmt.Sprintf("names %s, which is not there", d.Digest))
	default:
		return err
	}
	return nil
}

// shrinks says which platforms a tag loses when it moves from previous to root,
// "" for none but those that were to be removed. Two jobs that each publish one platform under one tag are the
// usual cause.
func shrinks(previous, root oci.Blob, removed []string) string {
	was, is := platformsOf(previous), platformsOf(root)
	var lost []string
	for _, p := range was {
		if !slices.Contains(is, p) && !slices.Contains(removed, p) {
			lost = append(lost, p)
		}
	}
	if len(lost) == 0 {
		return ""
	}
	return fmt.Sprintf("loses %s: it names %s with %s, and will name %s with %s",
		strings.Join(lost, ", "), previous.Digest, strings.Join(was, ", "), root.Digest, strings.Join(is, ", "))
}

// platformsOf lists the platforms of an index, or nothing for other content.
func platformsOf(b oci.Blob) []string {
	if b.Bytes == nil || !oci.IsIndex(b.MediaType) {
		return nil
	}
	idx, err := oci.ParseIndex(b)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range idx.Manifests {
		if _, attests := oci.IsAttestation(e.Descriptor); attests || oci.IsUnknownPlatform(e.Platform) {
			continue
		}
		if key := oci.PlatformKey(*e.Platform); !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}
