package buildkit

import (
	"fmt"
	"maps"
	"strconv"
	"strings"

	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/util/confutil"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
)

// BuildKit makes an index as soon as it is told "multi-platform", also for one
// platform. The frontend option and the build argument that say so are left
// out of every build.
const (
	multiPlatformArg  = "BUILDKIT_MULTI_PLATFORM"
	multiPlatformAttr = "multi-platform"
)

// platformOptions are what every pass over one platform has in common: the
// user's options, copied where buildx or BuildKit's client write to them,
// without attestations, exports and names.
func platformOptions(spec *Spec, p oci.Platform) buildx.Options {
	several := len(spec.Platforms) > 1
	o := spec.Options
	o.Platforms = []oci.Platform{p}
	o.Ref = ""
	o.Tags = nil
	o.Exports = nil
	o.Annotations = nil
	// A nil entry keeps buildx from asking for provenance by default.
	o.Attests = map[string]*string{provenance: nil}
	spec.overridden(&o, p)
	o.BuildArgs = without(o.BuildArgs, multiPlatformArg)
	maps.DeleteFunc(o.BuildArgs, func(k, _ string) bool { return strings.HasPrefix(k, attestArg) })
	o.FrontendAttrs = without(o.FrontendAttrs, multiPlatformAttr)
	o.CacheFrom = cacheImports(o.CacheFrom, o.CacheTo, p, several)
	o.CacheTo = cacheExports(o.CacheTo, p, several)
	return o
}

// pushOptions build an image and push it by digest to the repositories. What
// the registry gets is its blobs and one manifest; no name is moved.
func pushOptions(spec *Spec, p oci.Platform, repositories []string) buildx.Options {
	o := platformOptions(spec, p)
	attrs := commitAttrs(spec, p)
	for k, v := range spec.Image {
		if transferAttr(k) {
			attrs[k] = v
		}
	}
	attrs["push"] = "true"
	attrs["push-by-digest"] = "true"
	attrs["name"] = strings.Join(repositories, ",")
	setDefault(attrs, "unpack", "false")
	// A node with an image store of its own would keep the repository's name
	// as an image called latest.
	setDefault(attrs, "store", "false")
	o.Exports = []client.ExportEntry{{Type: client.ExporterImage, Attrs: attrs}}
	return o
}

// storeOptions build an image and export it to a store of the client.
func storeOptions(spec *Spec, p oci.Platform, store *Store) buildx.Options {
	o := platformOptions(spec, p)
	attrs := commitAttrs(spec, p)
	attrs["tar"] = "false"
	// The statements of attestations have the names as their subject.
	attrs["name"] = strings.Join(spec.Names, ",")
	o.Attests = wantedAttests(spec)
	o.Exports = []client.ExportEntry{{Type: client.ExporterOCI, Attrs: attrs, OutputStore: store}}
	return o
}

// besideOptions have the build that pushes an image make it with its provenance,
// too. What is pushed has none: an exporter leaves out provenance that is "inline
// only" if it is told not to inline. The other one stays in the node's content
// store, without a name.
func besideOptions(spec *Spec, p oci.Platform, push buildx.Options) buildx.Options {
	v := *wantedAttests(spec)[provenance] + ",inline-only=true"
	push.Attests = map[string]*string{provenance: &v}
	inline := string(exptypes.OptKeyForceInlineAttestations)
	push.Exports[0].Attrs[inline] = "false"
	attrs := commitAttrs(spec, p)
	maps.Copy(attrs, map[string]string{inline: "true", "name": strings.Join(spec.Names, ","), "push": "false", "store": "false", "unpack": "false"})
	// What both answer is known from the last one, which knows the other's image.
	push.Exports = append(push.Exports, client.ExportEntry{Type: client.ExporterImage, Attrs: attrs})
	return push
}

// cached are options for a build that was made just now: all steps come from the
// node's cache.
func cached(o buildx.Options) buildx.Options {
	o.NoCache, o.NoCacheFilter, o.Pull = false, nil, false
	return o
}

// repeated are those of a build that came to its end before: its cache is not
// exported a second time. Inline cache stays, it is part of the image config.
func repeated(o buildx.Options) buildx.Options {
	o = cached(o)
	o.CacheTo = inlineOnly(o.CacheTo)
	return o
}

// attestOptions are storeOptions for an image that was built just now.
func attestOptions(spec *Spec, p oci.Platform, store *Store) buildx.Options {
	o := repeated(storeOptions(spec, p, store))
	o.ProvenanceResponseMode = confutil.MetadataProvenanceModeDisabled
	return o
}

// commitAttrs are the user's attributes that decide the bytes of the image.
// They are the same in every pass, or the digests would differ.
func commitAttrs(spec *Spec, p oci.Platform) map[string]string {
	attrs := map[string]string{}
	scoped := map[string]string{}
	for k, v := range spec.Image {
		a, isAnnotation, err := exptypes.ParseAnnotationKey(k)
		switch {
		case !isAnnotation && !transferAttr(k):
			attrs[k] = v
		case !isAnnotation || err != nil || isIndexAnnotation(a):
		case a.Platform == nil:
			setDefault(attrs, a.String(), v)
		case oci.PlatformKey(*a.Platform) == oci.PlatformKey(p):
			a.Platform = nil
			scoped[a.String()] = v
		}
	}
	maps.Copy(attrs, scoped)
	if len(attested(spec)) > 0 {
		// Without attestations older nodes make Docker media types from the
		// image exporter and OCI ones from the OCI exporter.
		setDefault(attrs, "oci-mediatypes", "true")
	}
	return attrs
}

// transferAttr reports attributes of the image exporter that say where the
// image goes, which the OCI exporter does not know.
func transferAttr(k string) bool {
	switch exptypes.ImageExporterOptKey(k) {
	case exptypes.OptKeyName, exptypes.OptKeyPush, exptypes.OptKeyPushByDigest, exptypes.OptKeyInsecure,
		exptypes.OptKeyUnpack, exptypes.OptKeyStore, exptypes.OptKeyNameCanonical,
		exptypes.OptKeyDanglingPrefix, exptypes.OptKeyDanglingEmptyOnly, "tar", "context", "prefer-image-digest":
		return true
	}
	return false
}

func isIndexAnnotation(a exptypes.AnnotationKey) bool {
	return a.Type == exptypes.AnnotationIndex || a.Type == exptypes.AnnotationIndexDescriptor
}

// checkSpec refuses what would only fail after a build.
func checkSpec(spec *Spec) error {
	for k := range spec.Image {
		a, ok, err := exptypes.ParseAnnotationKey(k)
		if err != nil {
			return fmt.Errorf("annotation %s: %w", k, err)
		}
		if ok && a.Platform != nil && !builds(spec, *a.Platform) {
			return fmt.Errorf("annotation %s: the platform is not built", k)
		}
	}
	if dockerTypes(spec) && len(attested(spec)) > 0 {
		return fmt.Errorf("oci-mediatypes=false: attestations need OCI media types")
	}
	return nil
}

func builds(spec *Spec, p oci.Platform) bool {
	for _, q := range spec.Platforms {
		if oci.PlatformKey(q) == oci.PlatformKey(p) {
			return true
		}
	}
	return len(spec.Platforms) == 0
}

func dockerTypes(spec *Spec) bool {
	v, ok := spec.Image["oci-mediatypes"]
	b, err := strconv.ParseBool(v)
	return ok && err == nil && !b
}

func setDefault(m map[string]string, k, v string) {
	if _, ok := m[k]; !ok {
		m[k] = v
	}
}

// without copies m less one key.
func without(m map[string]string, key string) map[string]string {
	out := maps.Clone(m)
	delete(out, key)
	return out
}
