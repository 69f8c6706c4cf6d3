package cli

import (
	"regexp"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/oci"
)

// annotationTypes are the types before the key of an annotation, each perhaps
// with a platform. Anything else before a colon is part of the key.
var annotationTypes = regexp.MustCompile(`^((?:[a-z-]+(?:\[[^\]]*\])?)(?:,[a-z-]+(?:\[[^\]]*\])?)*):(.+)$`)

// annotate reads --annotation as buildx spells it.
func annotate(o *manifold.CreateOptions, in []string) error {
	for _, s := range in {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return usage("--annotation %q: want key=value", s)
		}
		if err := oci.CheckTexts(s); err != nil {
			return usage("--annotation %w", err)
		}
		types := "index"
		if parts := annotationTypes.FindStringSubmatch(key); parts != nil {
			types, key = parts[1], parts[2]
		}
		for kind := range strings.SplitSeq(types, ",") {
			if err := addAnnotation(o, s, kind, key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

func addAnnotation(o *manifold.CreateOptions, given, kind, key, value string) error {
	kind, inner, hasPlatform := strings.Cut(kind, "[")
	a := manifold.DescriptorAnnotation{Key: key, Value: value}
	if hasPlatform {
		p, err := oci.ParsePlatform(strings.TrimSuffix(inner, "]"))
		if err != nil {
			return &exitError{code: ExitUsage, err: err}
		}
		a.Platform = &p
	}
	switch {
	case kind == "index" && !hasPlatform:
		if o.Annotations == nil {
			o.Annotations = map[string]string{}
		}
		o.Annotations[key] = value
	case kind == "manifest-descriptor":
		o.DescriptorAnnotations = append(o.DescriptorAnnotations, a)
	case kind == "manifest":
		o.ManifestAnnotations = append(o.ManifestAnnotations, a)
	case kind == "index-descriptor":
		return usage("--annotation %q: nothing in a registry describes an index; annotate the index itself", given)
	default:
		return usage("--annotation %q: want index, manifest-descriptor[PLATFORM] or manifest[PLATFORM] before the key", given)
	}
	return nil
}
