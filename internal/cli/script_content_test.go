package cli_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
)

var _ = scriptCommands(map[string]scriptCommand{
	"image":       image,
	"index":       index,
	"attestation": attestation,
	"artifact":    artifact,
	"raw":         raw,
	"push":        push,
	"layout":      writeLayout,
})

// keep stores content under a name and sets variables: $NAME is its digest,
// $NAME_SIZE its size, $NAME_CONFIG and $NAME_LAYER those of an image's config and first layer.
func (k *kit) keep(name string, c registrytest.Content) {
	k.contents[name] = c
	k.ts.Setenv(name, c.Digest().String())
	k.ts.Setenv(name+"_SIZE", strconv.FormatInt(c.Root.Size, 10))
	for i, v := range []string{"_CONFIG", "_LAYER"} {
		if i < len(c.Blobs) {
			k.ts.Setenv(name+v, c.Blobs[i].Digest.String())
		}
	}
}

func (k *kit) content(name string) registrytest.Content {
	c, ok := k.contents[name]
	if !ok {
		k.fail("no content %q: make it with image, index, attestation, artifact or raw", name)
	}
	return c
}

// style is two (spaces, as BuildKit), three (as Docker), tab, crlf; newline
// ends the text with one.
func (k *kit) style(s string) registrytest.Style {
	styles := map[string]registrytest.Style{
		"compact": {}, "two": {Indent: "  "}, "three": {Indent: "   "}, "tab": {Indent: "\t"},
		"crlf": {Indent: "  ", CRLF: true, Newline: true}, "three-newline": {Indent: "   ", Newline: true},
	}
	out, ok := styles[s]
	if !ok {
		k.fail("style=%s: unknown", s)
	}
	return out
}

// image NAME PLATFORM [docker] [style=S] [text=T] [layers=N] [pad=N]
// [os-version=V] [os-feature=F] [no-platform] [no-entry-platform] [label=PLATFORM]
// [annotation=K:V] [extra=K:V]: makes an image. label is what an index says its
// platform is.
func image(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: image name platform [option...]")
	}
	var o registrytest.ImageOptions
	label := ""
	for _, a := range args[2:] {
		if key, value := option(a); key == "label" {
			label = value
		} else {
			k.imageOption(&o, key, value)
		}
	}
	c := registrytest.Image(k, args[1], o)
	if label != "" {
		p, err := oci.ParsePlatform(label)
		k.ts.Check(err)
		c.Platform = &p
	}
	k.keep(args[0], c)
}

func (k *kit) imageOption(o *registrytest.ImageOptions, key, value string) {
	switch key {
	case "docker":
		o.Docker = true
	case "style":
		o.Style = k.style(value)
	case "text":
		o.Text = value
	case "layers":
		o.Layers = k.number(value)
	case "pad":
		o.Pad = k.number(value)
	case "os-version":
		o.OSVersion = value
	case "os-feature":
		o.OSFeatures = append(o.OSFeatures, value)
	case "no-platform":
		o.NoPlatform = true
	case "no-entry-platform":
		o.NoEntryPlatform = true
	case "annotation":
		name, text, _ := strings.Cut(value, ":")
		o.Annotations = map[string]string{name: text}
	case "extra":
		name, text, _ := strings.Cut(value, ":")
		o.Extra = map[string]any{name: text}
	default:
		k.fail("image: unknown %q", key)
	}
}

// index NAME [docker] [style=S] [annotation=K:V] [artifact-type=T] CHILD...:
// makes an index of contents.
func index(k *kit, args []string) {
	if len(args) < 1 {
		k.fail("usage: index name [option...] child...")
	}
	var o registrytest.IndexOptions
	var children []registrytest.Content
	for _, a := range args[1:] {
		switch key, value := option(a); key {
		case "docker":
			o.Docker = true
		case "style":
			o.Style = k.style(value)
		case "annotation":
			name, text, _ := strings.Cut(value, ":")
			o.Annotations = map[string]string{name: text}
		case "artifact-type":
			o.ArtifactType = value
		default:
			children = append(children, k.content(a))
		}
	}
	k.keep(args[0], registrytest.Index(k, o, children...))
}

// attestation NAME IMAGE: makes an attestation of an image.
func attestation(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: attestation name image")
	}
	k.keep(args[0], registrytest.Attestation(k, k.content(args[1])))
}

// artifact NAME [type=T] [data=D] [subject=CONTENT]: makes an artifact.
func artifact(k *kit, args []string) {
	if len(args) < 1 {
		k.fail("usage: artifact name [option...]")
	}
	var o registrytest.ArtifactOptions
	for _, a := range args[1:] {
		switch key, value := option(a); key {
		case "type":
			o.Type = value
		case "data":
			o.Data = value
		case "subject":
			d := k.content(value).Root.Descriptor
			o.Subject = &d
		default:
			k.fail("artifact: unknown %q", key)
		}
	}
	k.keep(args[0], registrytest.Artifact(k, o))
}

// raw NAME FILE MEDIA-TYPE [CHILD...]: content whose root is the bytes of a
// file, in which variables are replaced, without the last newline. Media types:
// index, manifest, list, docker, or in full.
func raw(k *kit, args []string) {
	if len(args) < 3 {
		k.fail("usage: raw name file media-type [child...]")
	}
	short := map[string]string{
		"index": oci.MediaTypeIndex, "manifest": oci.MediaTypeManifest,
		"list": oci.MediaTypeDockerList, "docker": oci.MediaTypeDockerManifest,
	}
	mediaType := args[2]
	if t, ok := short[mediaType]; ok {
		mediaType = t
	}
	text := os.Expand(strings.TrimSuffix(k.ts.ReadFile(args[1]), "\n"), k.ts.Getenv)
	c := registrytest.Content{Root: oci.NewBlob(mediaType, []byte(text))}
	for _, a := range args[3:] {
		c.Children = append(c.Children, k.content(a))
	}
	k.keep(args[0], c)
}

// push REGISTRY REPOSITORY[:TAG] CONTENT...: stores contents and everything
// below them; without a tag, by digest. "image PLATFORM [option...]" in place of
// a content makes one on the way.
func push(k *kit, args []string) {
	if len(args) < 3 {
		k.fail("usage: push registry repository[:tag] content...")
	}
	r := k.registry(args[0])
	repo, tag := repoTag(args[1])
	if args[2] == "image" {
		image(k, append([]string{"PUSHED"}, args[3:]...))
		args = []string{"", "", "PUSHED"}
	}
	for _, name := range args[2:] {
		r.Push(repo, tag, k.content(name))
	}
}

// layout DIR[:TAG] CONTENT: writes an OCI image layout, or adds to one.
func writeLayout(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: layout dir[:tag] content")
	}
	dir, tag := repoTag(args[0])
	dir = k.ts.MkAbs(dir)
	c := k.content(args[1])
	blobs := filepath.Join(dir, "blobs", "sha256")
	k.ts.Check(os.MkdirAll(blobs, 0o755))
	k.ts.Check(os.WriteFile(filepath.Join(dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644))
	for _, b := range append(c.AllBlobs(), c.Manifests()...) {
		k.ts.Check(os.WriteFile(filepath.Join(blobs, b.Digest.Encoded()), b.Bytes, 0o644))
	}
	var idx struct {
		SchemaVersion int              `json:"schemaVersion"`
		Manifests     []oci.Descriptor `json:"manifests"`
	}
	file := filepath.Join(dir, "index.json")
	if b, err := os.ReadFile(file); err == nil {
		k.ts.Check(json.Unmarshal(b, &idx))
	}
	d := c.Root.Descriptor
	if tag != "" {
		d.Annotations = map[string]string{"org.opencontainers.image.ref.name": tag}
	}
	idx.SchemaVersion, idx.Manifests = 2, append(idx.Manifests, d)
	b, err := json.Marshal(idx)
	k.ts.Check(err)
	k.ts.Check(os.WriteFile(file, b, 0o644))
}
