package buildkit

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/buildx/build"
	"github.com/docker/buildx/util/buildflags"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
)

// Attributes of the image output that say where and how it is pushed, and so
// are not for one platform's image.
const (
	attrName          = "name"
	attrPush          = "push"
	attrPushByDigest  = "push-by-digest"
	attrNameCanonical = "name-canonical"
	attrUnpack        = "unpack"
)

func (r specReader) readOutputs(s *Spec) error {
	entries, err := buildflags.ParseExports(r.list("output"))
	if err != nil {
		return usage("output", err)
	}
	if err := checkTypes(entries); err != nil {
		return err
	}
	if err := checkIIDFile(s.IIDFile, entries); err != nil {
		return err
	}
	outputs, _, err := build.CreateExports(entries)
	if err != nil {
		return usage("output", err)
	}
	s.StdoutTaken = slices.ContainsFunc(entries, func(e *buildflags.ExportEntry) bool { return e.Destination == "-" })
	outputs = r.addShorthands(outputs)
	if err := r.checkAllowed(s, outputs); err != nil {
		return err
	}
	s.Annotations, err = buildflags.ParseAnnotations(r.list("annotation"))
	if err != nil {
		return usage("annotation", err)
	}
	for k, v := range s.Annotations {
		if err := oci.CheckTexts(k.String(), v); err != nil {
			return usage("annotation", err)
		}
	}
	for _, o := range outputs {
		for k, v := range s.Annotations {
			o.Attrs[k.String()] = v
		}
	}
	s.Tags = r.list("tag")
	return s.takeApart(outputs)
}

// outputTypes are those of buildx, and moby, which is the engine's own.
var outputTypes = []string{
	"cacheonly", client.ExporterDocker, client.ExporterImage, client.ExporterLocal, "moby", client.ExporterOCI, "registry", client.ExporterTar,
}

func checkTypes(entries []*buildflags.ExportEntry) error {
	for _, e := range entries {
		if !slices.Contains(outputTypes, e.Type) {
			return &UsageError{Flag: "output", Value: e.Type, Reason: "there is no such type: " + strings.Join(outputTypes, ", ")}
		}
	}
	return nil
}

func checkIIDFile(path string, entries []*buildflags.ExportEntry) error {
	for _, e := range entries {
		if path != "" && (e.Type == client.ExporterLocal || e.Type == client.ExporterTar) {
			return &UsageError{Flag: "iidfile", Value: path, Reason: "local and tar outputs have no image ID"}
		}
	}
	return nil
}

// addShorthands applies --push and --load as buildx does: to the outputs that
// fit, or as an output of their own.
func (r specReader) addShorthands(outputs []client.ExportEntry) []client.ExportEntry {
	if r.on("push") {
		outputs = pushAll(outputs)
	}
	isLoad := func(e client.ExportEntry) bool {
		_, file := e.Attrs["dest"]
		return e.Type == client.ExporterDocker && !file
	}
	if r.on("load") && !slices.ContainsFunc(outputs, isLoad) {
		outputs = append(outputs, client.ExportEntry{Type: client.ExporterDocker, Attrs: map[string]string{}})
	}
	return outputs
}

func pushAll(outputs []client.ExportEntry) []client.ExportEntry {
	isImage := func(e client.ExportEntry) bool { return e.Type == client.ExporterImage }
	if !slices.ContainsFunc(outputs, isImage) {
		outputs = append(outputs, client.ExportEntry{Type: client.ExporterImage, Attrs: map[string]string{}})
	}
	for _, o := range outputs {
		if !isImage(o) {
			continue
		}
		o.Attrs[attrPush] = "true"
		if _, given := o.Attrs[attrUnpack]; !given {
			o.Attrs[attrUnpack] = "false"
		}
	}
	return outputs
}

func (r specReader) checkAllowed(s *Spec, outputs []client.ExportEntry) error {
	allow, deleting, err := buildflags.ParseEntitlements(r.list("allow"))
	if err != nil {
		return usage("allow", err)
	}
	s.Options.Allow = allow
	return usage("output", build.ValidateLocalExportDelete(outputs, deleting))
}

// takeApart separates the pushing output, which manifold publishes, from those
// that BuildKit writes by itself.
func (s *Spec) takeApart(outputs []client.ExportEntry) error {
	s.Options.Annotations = maps.Clone(s.Annotations)
	for _, o := range outputs {
		if err := oci.CheckAnnotations(o.Attrs); err != nil {
			return usage("output", err)
		}
		if s.Call != nil || !isPush(o) {
			s.Others = append(s.Others, o)
			continue
		}
		if err := s.addPush(o.Attrs); err != nil {
			return err
		}
	}
	if !s.Push {
		return nil
	}
	if len(s.Tags) > 0 {
		s.Names = slices.Clone(s.Tags)
	}
	// The node makes no index, and the docker driver would refuse these.
	maps.DeleteFunc(s.Options.Annotations, func(k exptypes.AnnotationKey, _ string) bool {
		return k.Type != "" && k.Type != exptypes.AnnotationManifest
	})
	return nil
}

func isPush(o client.ExportEntry) bool {
	return o.Type == client.ExporterImage && isTrue(o.Attrs[attrPush])
}

func isTrue(s string) bool {
	on, err := strconv.ParseBool(s)
	return err == nil && on
}

// addPush reads one pushing output. Several may differ in their names only,
// since one image is published.
func (s *Spec) addPush(attrs map[string]string) error {
	image := map[string]string{}
	part := Spec{IndexAnnotations: map[string]string{}, IndexDescriptorAnnotations: map[string]string{}}
	for _, k := range slices.Sorted(maps.Keys(attrs)) {
		if slices.Contains([]string{attrName, attrPush, attrPushByDigest, attrNameCanonical}, k) {
			continue
		}
		kept, err := part.addAnnotation(k, attrs[k])
		if err != nil {
			return &UsageError{Flag: "output", Value: k, Reason: err.Error()}
		}
		if kept {
			image[k] = attrs[k]
		}
	}
	byDigest := isTrue(attrs[attrPushByDigest])
	if s.Push && (byDigest != s.PushByDigest || !maps.Equal(image, s.Image) || !maps.Equal(part.IndexAnnotations, s.IndexAnnotations)) {
		return &UsageError{Flag: "output", Reason: "outputs that push must not differ in anything but the name: one image is published"}
	}
	s.Push, s.PushByDigest, s.Image = true, byDigest, image
	s.IndexAnnotations, s.IndexDescriptorAnnotations, s.DescriptorAnnotations = part.IndexAnnotations, part.IndexDescriptorAnnotations, part.DescriptorAnnotations
	for _, name := range strings.Split(attrs[attrName], ",") {
		if name != "" {
			s.Names = append(s.Names, name)
		}
	}
	return nil
}

// addAnnotation takes an attribute out when it annotates the index or a
// descriptor; kept says that it belongs to the image instead.
func (s *Spec) addAnnotation(attr, value string) (kept bool, err error) {
	k, ok, err := exptypes.ParseAnnotationKey(attr)
	if !ok && meansAnnotation(attr) {
		// BuildKit would not know it for one and drop it in silence.
		return false, errors.New("not an annotation: the key is empty or has blanks in it")
	}
	if err != nil || !ok {
		return !ok, err
	}
	switch k.Type {
	case exptypes.AnnotationIndex:
		s.IndexAnnotations[k.Key] = value
	case exptypes.AnnotationIndexDescriptor:
		s.IndexDescriptorAnnotations[k.Key] = value
	case exptypes.AnnotationManifestDescriptor:
		a := DescriptorAnnotation{Key: k.Key, Value: value}
		if k.Platform != nil {
			p := oci.NormalizePlatform(*k.Platform)
			a.Platform = &p
		}
		s.DescriptorAnnotations = append(s.DescriptorAnnotations, a)
	default:
		return true, nil
	}
	return false, nil
}

func meansAnnotation(attr string) bool {
	rest, ok := strings.CutPrefix(attr, "annotation")
	return ok && rest != "" && strings.ContainsAny(rest[:1], "-.[")
}

// checkNames refuses names that could not be published, after everything else
// was read.
func checkNames(s *Spec) error {
	if err := checkReferences("tag", s.Tags); err != nil {
		return err
	}
	if !s.Push {
		return nil
	}
	if len(s.Names) == 0 {
		return &UsageError{Flag: "tag", Reason: "tag is needed when pushing to registry"}
	}
	if err := checkReferences("output", s.Names); err != nil {
		return err
	}
	seen := map[ref.Reference]bool{}
	s.Names = slices.DeleteFunc(s.Names, func(name string) bool {
		r, _ := ref.Parse(name)
		repeated := seen[r.OrLatest()]
		seen[r.OrLatest()] = true
		return repeated
	})
	return s.checkByDigest()
}

func checkReferences(flag string, names []string) error {
	for _, name := range names {
		r, err := ref.Parse(name)
		var re *ref.Error
		switch {
		case errors.As(err, &re):
			return &UsageError{Flag: flag, Value: name, Reason: re.Reason}
		case r.Digest != "":
			return &UsageError{Flag: flag, Value: name, Reason: "a name to publish has no digest"}
		}
	}
	return nil
}

// checkByDigest refuses a tag that would not be written; BuildKit does too.
func (s *Spec) checkByDigest() error {
	for _, name := range s.Names {
		if r, _ := ref.Parse(name); s.PushByDigest && r.Tag != "" {
			return &UsageError{Flag: "output", Value: name, Reason: "push-by-digest writes no tag: leave the tag out"}
		}
	}
	return nil
}
