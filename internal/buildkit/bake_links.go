package buildkit

import (
	"maps"
	"slices"
	"strings"

	buildx "github.com/docker/buildx/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
)

// link collects the targets that the contexts of s name, and of those in turn.
func (s *Spec) link(all map[string]buildx.Options, seen map[string]bool) error {
	return collectLinks(s.Options, all, seen, func(name string, o buildx.Options) {
		if s.linked == nil {
			s.linked = map[string]buildx.Options{}
		}
		s.linked[name] = o
	})
}

func collectLinks(o buildx.Options, all map[string]buildx.Options, seen map[string]bool, found func(string, buildx.Options)) error {
	for _, name := range links(o) {
		if seen[name] {
			continue
		}
		other, ok := all[name]
		if !ok {
			return &UsageError{Value: name, Reason: "no such target"}
		}
		seen[name] = true
		found(name, other)
		if err := collectLinks(other, all, seen, found); err != nil {
			return err
		}
	}
	return nil
}

// links are the targets that the contexts of a target name.
func links(o buildx.Options) []string {
	var out []string
	for _, c := range o.Inputs.NamedContexts {
		if name, ok := strings.CutPrefix(c.Path, targetContext); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// targetContext is what stands before a target's name in a context.
const targetContext = "target:"

// linkedTargets are the targets that one platform of s is built from, named so
// that platforms do not share them.
func (s *Spec) linkedTargets(p oci.Platform, label string) map[string]buildx.Options {
	out := map[string]buildx.Options{}
	for name, o := range s.linked {
		own := *s
		own.Options, own.overrides = o, nil
		t := platformOptions(&own, p)
		t.Platforms = linkedPlatforms(o.Platforms, p)
		t.CacheTo = nil
		t.Exports = []client.ExportEntry{{Type: "cacheonly"}}
		out[linkedName(name, p, label)] = s.relinked(t, p, label)
	}
	return out
}

// linkedPlatforms is what a target is built for where another one needs it for p:
// for p if it lists that, for its one platform if it has one, as for stages that run
// where the build does, and for the node's own if it lists none.
func linkedPlatforms(listed []oci.Platform, p oci.Platform) []oci.Platform {
	same := func(q oci.Platform) bool { return oci.PlatformKey(q) == oci.PlatformKey(p) }
	if len(listed) < 2 && !slices.ContainsFunc(listed, same) {
		return listed
	}
	return []oci.Platform{p}
}

// relinked makes contexts name the targets of this platform and pass.
func (s *Spec) relinked(o buildx.Options, p oci.Platform, label string) buildx.Options {
	if len(s.linked) == 0 {
		return o
	}
	o.Inputs.NamedContexts = maps.Clone(o.Inputs.NamedContexts)
	for k, c := range o.Inputs.NamedContexts {
		if name, ok := strings.CutPrefix(c.Path, targetContext); ok {
			c.Path = targetContext + linkedName(name, p, label)
			o.Inputs.NamedContexts[k] = c
		}
	}
	return o
}

func linkedName(name string, p oci.Platform, label string) string {
	return targetName(p, label) + " " + name
}
