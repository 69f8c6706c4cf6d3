package index

import (
	"maps"
	"strings"

	"github.com/manifold-oci/manifold/oci"
)

// Assemble makes one index of images. Its digest is what "docker buildx
// imagetools create" gives for the same images, as far as that keeps them.
//
// One digest given twice for one platform is one entry. Errors:
// [*DuplicateError], [*NoPlatformError], [*EntryError], [*MediaTypeError],
// [*SizeError], [ErrEmpty], [*oci.TextError], and what [oci.ParseIndex] says about o.Base.
func Assemble(images []Image, o Options) (oci.Blob, error) {
	base, err := readBase(o.Base)
	if err != nil {
		return oci.Blob{}, err
	}
	images, err = merge(images)
	if err != nil {
		return oci.Blob{}, err
	}
	annotate(images, o.DescriptorAnnotations)
	if err := checkTexts(images, o); err != nil {
		return oci.Blob{}, err
	}
	doc := document{
		ArtifactType: first(o.ArtifactType, base.view.ArtifactType),
		Subject:      base.view.Subject,
		Annotations:  overlay(base.view.Annotations, o.Annotations),
		entries:      entries(images),
		unknown:      base.unknown,
	}
	if doc.MediaType, err = mediaType(o.MediaType, base.view.MediaType, doc); err != nil {
		return oci.Blob{}, err
	}
	return doc.blob()
}

// checkTexts refuses what would be written as another text.
func checkTexts(images []Image, o Options) error {
	if err := oci.CheckTexts(o.ArtifactType); err != nil {
		return err
	}
	if err := oci.CheckAnnotations(o.Annotations); err != nil {
		return err
	}
	for _, e := range entries(images) {
		if err := checkEntry(e); err != nil {
			return err
		}
	}
	return nil
}

func checkEntry(e oci.Entry) error {
	if e.Platform != nil {
		if err := oci.CheckPlatform(*e.Platform); err != nil {
			return err
		}
	}
	if err := oci.CheckTexts(e.MediaType, e.ArtifactType); err != nil {
		return err
	}
	return oci.CheckAnnotations(e.Annotations)
}

// entries puts images first, so that a client that knows nothing of
// attestations finds one in the first place it looks.
func entries(images []Image) []oci.Entry {
	var out []oci.Entry
	for _, img := range images {
		out = append(out, img.Entry)
	}
	for _, img := range images {
		out = append(out, img.Attestations...)
	}
	return out
}

func annotate(images []Image, f func(oci.Entry) map[string]string) {
	if f == nil {
		return
	}
	for i := range images {
		e := &images[i].Entry
		e.Annotations = overlay(e.Annotations, f(*e))
	}
}

// mediaType decides or checks the media type of an index. A Docker list has no
// annotations, no subject and no OCI children: what is asked for is then either
// written to an OCI index or refused, never dropped.
func mediaType(asked, base string, doc document) (string, error) {
	reason := doc.whyNotDocker()
	switch {
	case asked == oci.MediaTypeIndex, asked == "" && (reason != "" || base == oci.MediaTypeIndex):
		return oci.MediaTypeIndex, nil
	case asked != "" && asked != oci.MediaTypeDockerList:
		return "", &MediaTypeError{MediaType: asked, Reason: "is not the media type of an index"}
	case reason != "":
		return "", &MediaTypeError{MediaType: asked, Reason: reason}
	}
	return oci.MediaTypeDockerList, nil
}

// whyNotDocker returns the reason why d cannot be a Docker manifest list, or "".
func (d document) whyNotDocker() string {
	switch {
	case len(d.Annotations) > 0:
		return "cannot hold annotations"
	case d.ArtifactType != "":
		return "cannot hold an artifact type"
	case d.Subject != nil:
		return "cannot hold a subject"
	}
	for _, e := range d.entries {
		switch {
		case !strings.HasPrefix(e.MediaType, "application/vnd.docker."):
			return "cannot hold " + string(e.Digest) + " of type " + e.MediaType
		case len(e.Annotations) > 0:
			return "cannot hold the annotations of " + string(e.Digest)
		}
	}
	return ""
}

// overlay returns base with the members of over, nil when there are none.
func overlay(base, over map[string]string) map[string]string {
	if len(over) == 0 {
		return base
	}
	out := maps.Clone(base)
	if out == nil {
		out = make(map[string]string, len(over))
	}
	maps.Copy(out, over)
	return out
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
