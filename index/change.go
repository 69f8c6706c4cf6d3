package index

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// Selector names entries of an index, by digest or by platform.
type Selector struct {
	Digest digest.Digest
	// Platform is looked at when Digest is empty. It means every entry that
	// satisfies it: "windows/amd64" is every version of that.
	Platform oci.Platform
}

func (s Selector) String() string {
	if s.Digest != "" {
		return s.Digest.String()
	}
	return oci.FormatPlatform(s.Platform)
}

func (s Selector) matches(e oci.Entry) bool {
	if s.Digest != "" {
		return e.Digest == s.Digest
	}
	return e.Platform != nil && oci.SatisfiesPlatform(s.Platform, *e.Platform)
}

// AbsentError reports a change to an entry that is not there.
type AbsentError struct {
	// What was to be changed: a digest or a platform.
	What string
	// Have are the platforms that are there.
	Have []string
	// Replacing says that something was to take its place, and can be added.
	Replacing bool
}

func (e *AbsentError) Error() string {
	return fmt.Sprintf("%s: is not in the index, it has %s", e.What, strings.Join(e.Have, ", "))
}

func absent(what string, images []Image) error {
	return &AbsentError{What: what, Have: Platforms(images)}
}

// Platforms lists the platforms of images that run, in their order.
func Platforms(images []Image) []string {
	var out []string
	for _, img := range images {
		if img.runs() {
			out = append(out, oci.FormatPlatform(*img.Entry.Platform))
		}
	}
	return out
}

// Remove returns images without those that which names; their attestations go
// with them. A digest may also be that of one attestation. The error is an
// [*AbsentError].
func Remove(images []Image, which ...Selector) ([]Image, error) {
	for _, s := range which {
		left := slices.DeleteFunc(slices.Clone(images), func(img Image) bool { return s.matches(img.Entry) })
		if len(left) == len(images) {
			var found bool
			if left, found = withoutAttestation(images, s.Digest); !found {
				return nil, absent(s.String(), images)
			}
		}
		images = left
	}
	return images, nil
}

func withoutAttestation(images []Image, d digest.Digest) (out []Image, found bool) {
	if d == "" {
		return nil, false
	}
	out = slices.Clone(images)
	for i := range out {
		all := out[i].Attestations
		out[i].Attestations = slices.DeleteFunc(slices.Clone(all), func(a oci.Entry) bool { return a.Digest == d })
		found = found || len(out[i].Attestations) < len(all)
	}
	return out, found
}

// Replace puts each image of with in the place of the one for the same
// platform, whose attestations go. One for a platform that is not there is
// added at the end if add is set, and otherwise an [*AbsentError].
func Replace(images, with []Image, add bool) ([]Image, error) {
	out := slices.Clone(images)
	taken := map[int]bool{} // by an image of with, so that two for one platform collide later
	for _, img := range with {
		i := slices.IndexFunc(out, func(o Image) bool { return samePlatform(o, img) })
		switch {
		case i >= 0 && !taken[i]:
			out[i], taken[i] = img, true
		case i >= 0 || add:
			taken[len(out)] = true
			out = append(out, img)
		default:
			what := oneOf(Platforms([]Image{img}), img.Entry.Digest)
			return nil, &AbsentError{What: what, Have: Platforms(images), Replacing: true}
		}
	}
	return out, nil
}

func oneOf(platforms []string, d digest.Digest) string {
	if len(platforms) > 0 {
		return platforms[0]
	}
	return d.String()
}

func samePlatform(a, b Image) bool {
	if !a.runs() || !b.runs() {
		return a.Entry.Digest == b.Entry.Digest
	}
	return oci.PlatformKey(*a.Entry.Platform) == oci.PlatformKey(*b.Entry.Platform)
}

// Relabel changes the platform in the entries that s names; unknown members are
// kept, the images are not touched. The error is an [*AbsentError].
func Relabel(images []Image, s Selector, change func(oci.Platform) oci.Platform) ([]Image, error) {
	out := slices.Clone(images)
	found := false
	for i := range out {
		e := &out[i].Entry
		if !s.matches(*e) {
			continue
		}
		found = true
		var now oci.Platform
		if e.Platform != nil {
			now = *e.Platform
		}
		p := change(now)
		e.Platform = &p
		out[i].Artifact = out[i].Artifact && oci.IsUnknownPlatform(&p)
	}
	if !found {
		return nil, absent(s.String(), images)
	}
	return out, nil
}

// Same reports whether two indexes say the same, whatever their JSON looks like
// and in whatever order they list it.
func Same(a, b oci.Blob) bool {
	if a.Digest == b.Digest {
		return true
	}
	ja, errA := canonical(a)
	jb, errB := canonical(b)
	return errA == nil && errB == nil && ja == jb
}

// canonical writes an index in one way, its entries sorted.
func canonical(b oci.Blob) (string, error) {
	at, err := readBase(&b)
	if err != nil {
		return "", err
	}
	d := document{
		MediaType: at.view.MediaType, ArtifactType: at.view.ArtifactType, Subject: at.view.Subject, Annotations: at.view.Annotations,
		SchemaVersion: 2, unknown: at.unknown,
	}
	for _, e := range at.view.Manifests {
		raw, err := entryJSON(e)
		if err != nil {
			return "", err
		}
		d.Manifests = append(d.Manifests, raw)
	}
	slices.SortFunc(d.Manifests, func(x, y json.RawMessage) int { return bytes.Compare(x, y) })
	out, err := d.indented()
	return string(out), err
}
