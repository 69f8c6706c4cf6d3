package buildkit

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/moby/buildkit/client"
)

// Every platform is a build of its own, so builds that export their cache to
// one place would overwrite each other's (docker/buildx#1044): of several
// platforms, each gets a place of its own, named after the platform, and
// imports from there before it imports from the place that was named.

// cacheSuffix is the platform as it can stand in a tag, a scope or a file
// name: "linux-arm-v7".
func cacheSuffix(p oci.Platform) string {
	s := p.OS + "-" + p.Architecture
	if p.Variant != "" {
		s += "-" + p.Variant
	}
	return s
}

// cacheExports returns copies of entries, renamed if several platforms are
// built. Inline entries stay: they export into the image itself.
func cacheExports(entries []client.CacheOptionsEntry, p oci.Platform, several bool) []client.CacheOptionsEntry {
	out := cloneCache(entries)
	for i := range out {
		if several {
			renameCache(out[i], "dest", p)
		}
	}
	return out
}

// cacheImports returns copies of entries, each after its renamed twin if
// several platforms are built. Folders that are not there are left out where
// that is as it should be, since BuildKit warns of each.
func cacheImports(from, to []client.CacheOptionsEntry, p oci.Platform, several bool) []client.CacheOptionsEntry {
	var out []client.CacheOptionsEntry
	for _, e := range cloneCache(from) {
		twin := client.CacheOptionsEntry{Type: e.Type, Attrs: maps.Clone(e.Attrs)}
		split := several && e.Attrs["digest"] == "" && renameCache(twin, "src", p) && cacheExists(twin)
		if split {
			out = append(out, twin)
		}
		if cacheExists(e) || !split && !writesCache(to, e) {
			out = append(out, e)
		}
	}
	return out
}

// writesCache reports a local cache that this build writes: that it is not there
// yet, when it is first used, is nothing to warn of.
func writesCache(to []client.CacheOptionsEntry, from client.CacheOptionsEntry) bool {
	return slices.ContainsFunc(to, func(e client.CacheOptionsEntry) bool {
		return e.Type == "local" && from.Type == "local" && filepath.Clean(e.Attrs["dest"]) == filepath.Clean(from.Attrs["src"])
	})
}

// renameCache gives an entry the platform's own place and reports whether the
// entry has a place that can be renamed. dir is the attribute of a local one.
func renameCache(e client.CacheOptionsEntry, dir string, p oci.Platform) bool {
	switch e.Type {
	case "registry":
		e.Attrs["ref"] = tagWithSuffix(e.Attrs["ref"], cacheSuffix(p))
	case "local":
		e.Attrs[dir] = filepath.Join(e.Attrs[dir], cacheSuffix(p))
	case "gha":
		e.Attrs["scope"] = withSuffix(e.Attrs["scope"], "buildkit", p)
	case "s3", "azblob":
		e.Attrs["name"] = withSuffix(e.Attrs["name"], "buildkit", p)
	default:
		return false
	}
	return true
}

// withSuffix appends the platform to each of the names, which S3 separates by
// semicolons. fallback is the name that BuildKit uses when none is given.
func withSuffix(names, fallback string, p oci.Platform) string {
	if names == "" {
		names = fallback
	}
	parts := strings.Split(names, ";")
	for i := range parts {
		parts[i] += "-" + cacheSuffix(p)
	}
	return strings.Join(parts, ";")
}

// tagWithSuffix appends to the tag of a reference, "latest" if it has none. A
// name that does not parse is left for BuildKit to refuse.
func tagWithSuffix(name, suffix string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name
	}
	tag := "latest"
	if t, ok := named.(reference.Tagged); ok {
		tag = t.Tag()
	}
	tagged, err := reference.WithTag(reference.TrimNamed(named), tag+"-"+suffix)
	if err != nil {
		return name
	}
	return reference.FamiliarString(tagged)
}

// cacheExists keeps BuildKit's client from making a directory just to find it
// empty.
func cacheExists(e client.CacheOptionsEntry) bool {
	if e.Type != "local" {
		return true
	}
	_, err := os.Stat(filepath.Join(e.Attrs["src"], "index.json"))
	return err == nil
}

// inlineOnly drops the entries that export anywhere but into the image.
func inlineOnly(entries []client.CacheOptionsEntry) []client.CacheOptionsEntry {
	return slices.DeleteFunc(cloneCache(entries), func(e client.CacheOptionsEntry) bool { return e.Type != "inline" })
}

// cloneCache copies the attributes too: BuildKit's client writes to them.
func cloneCache(entries []client.CacheOptionsEntry) []client.CacheOptionsEntry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Attrs = maps.Clone(out[i].Attrs)
		if out[i].Attrs == nil {
			out[i].Attrs = map[string]string{}
		}
	}
	return out
}

// warnSplitCache says once where the cache of each platform goes.
func warnSplitCache(spec *Spec, sink report.Sink) {
	if len(spec.Platforms) < 2 {
		return
	}
	for _, e := range spec.Options.CacheTo {
		var places []string
		for _, p := range spec.Platforms {
			own := cloneCache([]client.CacheOptionsEntry{e})[0]
			if renameCache(own, "dest", p) {
				places = append(places, oci.FormatPlatform(p)+" has "+cachePlace(own))
			}
		}
		if len(places) > 0 {
			sink.Warn("--cache-to", "each platform has a cache of its own: "+strings.Join(places, ", "))
		}
	}
}

func cachePlace(e client.CacheOptionsEntry) string {
	for _, k := range []string{"ref", "dest", "scope", "name"} {
		if v := e.Attrs[k]; v != "" {
			return k + "=" + v
		}
	}
	return e.Type
}
