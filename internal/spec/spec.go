// Package spec reads what tells "manifold create" which sources to take: files
// with a digest, a reference or a descriptor (the -f of docker buildx imagetools
// create), and the YAML and the templates of manifest-tool.
//
// Everything is read strictly: a key that is not known, one that is there twice,
// or a value of the wrong kind is an [*Error] with the line. The keys of a
// platform may be written as anybody has ever written them (os.version,
// osVersion, osversion, os_version).
//
// Read spec.go first (the YAML), then source.go and template.go.
package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"go.yaml.in/yaml/v3"
)

// MaxSize bounds a file that is read here, in bytes.
const MaxSize = 1 << 20

// Spec is what a YAML file asks for.
type Spec struct {
	// Targets are image and, in the same repository, tags.
	Targets []ref.Reference
	Inputs  []manifold.Input
	// Annotations of the index.
	Annotations map[string]string
}

// Error reports a file that is not what it should be.
type Error struct {
	// Line is where, from 1; 0 for the file as a whole.
	Line   int
	Reason string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Reason
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Reason)
}

func fail(n *yaml.Node, format string, args ...any) error {
	return &Error{Line: n.Line, Reason: fmt.Sprintf(format, args...)}
}

// Parse reads a YAML spec: image, tags, annotations, and manifests with image,
// platform and annotations each. The error is an [*Error].
func Parse(b []byte) (Spec, error) {
	root, err := document(b)
	if err != nil {
		return Spec{}, err
	}
	var s Spec
	var image, tags *yaml.Node
	err = mapping(root, map[string]func(*yaml.Node) error{
		"image":       keep(&image),
		"tags":        keep(&tags),
		"annotations": func(n *yaml.Node) (err error) { s.Annotations, err = texts(n); return err },
		"manifests":   s.manifests,
	})
	switch {
	case err != nil:
		return Spec{}, err
	case image == nil:
		return Spec{}, fail(root, "image is missing: what the index shall be called")
	case len(s.Inputs) == 0:
		return Spec{}, fail(root, "manifests is missing or empty")
	}
	return s, s.targets(image, tags)
}

func keep(to **yaml.Node) func(*yaml.Node) error {
	return func(n *yaml.Node) error { *to = n; return nil }
}

// document reads exactly one document.
func document(b []byte) (*yaml.Node, error) {
	if len(b) > MaxSize {
		return nil, &Error{Reason: fmt.Sprintf("%d bytes, the limit is %d", len(b), MaxSize)}
	}
	dec := yaml.NewDecoder(bytes.NewReader(b))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, &Error{Reason: "the file is empty"}
	} else if err != nil {
		return nil, syntax(err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fail(&more, "a second document; one file makes one index")
	}
	if len(doc.Content) != 1 {
		return nil, &Error{Reason: "the file is empty"}
	}
	return doc.Content[0], nil
}

// syntax takes the line out of what the parser says.
func syntax(err error) error {
	e := &Error{Reason: strings.TrimPrefix(err.Error(), "yaml: ")}
	if _, serr := fmt.Sscanf(e.Reason, "line %d:", &e.Line); serr == nil {
		_, e.Reason, _ = strings.Cut(e.Reason, ": ")
	}
	return e
}

// mapping calls a function for each key of a mapping.
func mapping(n *yaml.Node, keys map[string]func(*yaml.Node) error) error {
	return entries(n, func(key, value *yaml.Node) error {
		f, ok := keys[key.Value]
		if !ok {
			return fail(key, "unknown key %q, want one of %s", key.Value, strings.Join(sorted(keys), ", "))
		}
		return f(value)
	})
}

func sorted(keys map[string]func(*yaml.Node) error) []string {
	var out []string
	for k := range keys {
		if !strings.ContainsAny(k, "_") && strings.ToLower(k) == k {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// entries calls a function for each entry of a mapping, whose keys are texts and
// there once.
func entries(n *yaml.Node, each func(key, value *yaml.Node) error) error {
	n = follow(n)
	if n.Kind != yaml.MappingNode {
		return fail(n, "want keys and values")
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := follow(n.Content[i])
		if key.Kind != yaml.ScalarNode {
			return fail(key, "a key is not a text")
		}
		if seen[key.Value] {
			return fail(key, "%q is there twice", key.Value)
		}
		seen[key.Value] = true
		if err := each(key, follow(n.Content[i+1])); err != nil {
			return err
		}
	}
	return nil
}

func follow(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

// text reads a scalar. A number is taken as it is written: 1.10 is a tag.
func text(n *yaml.Node) (string, error) {
	n = follow(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return "", fail(n, "want a text")
	}
	return n.Value, nil
}

func list(n *yaml.Node, each func(*yaml.Node) error) error {
	n = follow(n)
	if n.Kind != yaml.SequenceNode {
		return fail(n, "want a list")
	}
	for _, item := range n.Content {
		if err := each(follow(item)); err != nil {
			return err
		}
	}
	return nil
}

func texts(n *yaml.Node) (map[string]string, error) {
	out := map[string]string{}
	return out, entries(n, func(key, value *yaml.Node) (err error) {
		out[key.Value], err = text(value)
		return err
	})
}

func (s *Spec) targets(image, tags *yaml.Node) error {
	name, err := text(image)
	if err != nil {
		return err
	}
	r, err := ref.Parse(name)
	if err != nil {
		return fail(image, "image %v", err)
	}
	if r.Digest != "" {
		return fail(image, "image %q: an index is published under a tag, not a digest", name)
	}
	s.Targets = []ref.Reference{r.OrLatest()}
	if tags == nil {
		return nil
	}
	return list(tags, func(n *yaml.Node) error {
		tag, err := text(n)
		if err != nil {
			return err
		}
		t, err := ref.Parse(r.Name() + ":" + tag)
		if err != nil || t.Digest != "" {
			return fail(n, "tag %q is not a tag", tag)
		}
		s.Targets = append(s.Targets, t)
		return nil
	})
}

func (s *Spec) manifests(n *yaml.Node) error {
	return list(n, func(n *yaml.Node) error {
		var in manifold.Input
		var image *yaml.Node
		err := mapping(n, map[string]func(*yaml.Node) error{
			"image":       keep(&image),
			"platform":    func(n *yaml.Node) (err error) { in.Platform, err = platform(n); return err },
			"annotations": func(n *yaml.Node) (err error) { in.Annotations, err = texts(n); return err },
		})
		if err != nil {
			return err
		}
		if image == nil {
			return fail(n, "image is missing")
		}
		name, err := text(image)
		if err != nil {
			return err
		}
		named, err := Source(name)
		if err != nil {
			return fail(image, "image %v", err)
		}
		in.Location, in.Digest = named.Location, named.Digest
		s.Inputs = append(s.Inputs, in)
		return nil
	})
}

// platform reads a platform; an empty one, or one without any key, is that of
// the image.
func platform(n *yaml.Node) (*oci.Platform, error) {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil, nil
	}
	var p oci.Platform
	set := func(to *string) func(*yaml.Node) error {
		return func(n *yaml.Node) (err error) { *to, err = text(n); return err }
	}
	features := func(n *yaml.Node) error {
		return list(n, func(n *yaml.Node) error {
			f, err := text(n)
			p.OSFeatures = append(p.OSFeatures, f)
			return err
		})
	}
	keys := map[string]func(*yaml.Node) error{
		"architecture": set(&p.Architecture), "os": set(&p.OS), "variant": set(&p.Variant),
	}
	for _, k := range []string{"os.version", "osversion", "osVersion", "os_version", "os-version"} {
		keys[k] = set(&p.OSVersion)
	}
	for _, k := range []string{"os.features", "osfeatures", "osFeatures", "os_features", "os-features"} {
		keys[k] = features
	}
	if err := mapping(n, keys); err != nil {
		return nil, err
	}
	if len(n.Content) == 0 || p.OS == "" && p.Architecture == "" && p.Variant == "" && p.OSVersion == "" && len(p.OSFeatures) == 0 {
		return nil, nil
	}
	if p.OS == "" || p.Architecture == "" {
		return nil, fail(n, "a platform has an os and an architecture, or is left out")
	}
	return &p, nil
}
