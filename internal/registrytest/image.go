package registrytest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/manifold-oci/manifold/oci"
)

// Media types of layers.
const (
	mediaTypeLayer       = ocispec.MediaTypeImageLayerGzip
	mediaTypeDockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"
)

// ImageOptions change what Image makes.
type ImageOptions struct {
	// Docker uses Docker's media types.
	Docker bool
	// Style of the manifest; the config is compact.
	Style Style
	// Text of the one file in the layer; "hello from PLATFORM" when empty. Other
	// text makes another image.
	Text string
	// Pad adds a file of that many bytes that do not compress, for layers that
	// take a while to move.
	Pad int
	// Layers is the number of layers, one for 0. Each differs.
	Layers int
	// Shared is the number of layers, the first ones, that images of every
	// platform have in common.
	Shared int
	// Annotations of the manifest.
	Annotations map[string]string
	// Extra are members of the manifest that no specification knows.
	Extra map[string]any
	// OSVersion and OSFeatures are in the config and in the index entry.
	OSVersion  string
	OSFeatures []string
	// NoPlatform leaves the platform out of config and index entry.
	NoPlatform bool
	// NoEntryPlatform leaves it out of the index entry alone.
	NoEntryPlatform bool
}

// Image makes an image for a platform, os/arch[/variant]: a config and gzip
// layers of one file each.
func Image(t testing.TB, platform string, o ImageOptions) Content {
	t.Helper()
	p := o.platform(platform)
	layers, diffs := o.layers(t, platform)
	config := o.config(t, p, diffs)
	m := ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeManifest,
		Config: config.Descriptor, Layers: []oci.Descriptor{}, Annotations: o.Annotations,
	}
	if o.Docker {
		m.MediaType = oci.MediaTypeDockerManifest
	}
	for _, l := range layers {
		m.Layers = append(m.Layers, l.Descriptor)
	}
	c := Content{
		Root:     encode(t, m.MediaType, o.Style, m, o.Extra),
		Platform: &p,
		Blobs:    append([]oci.Blob{config}, layers...),
	}
	if o.NoPlatform || o.NoEntryPlatform {
		c.Platform = nil
	}
	return c
}

func (o ImageOptions) platform(s string) oci.Platform {
	parts := append(strings.Split(s, "/"), "", "")
	return oci.Platform{OS: parts[0], Architecture: parts[1], Variant: parts[2], OSVersion: o.OSVersion, OSFeatures: o.OSFeatures}
}

// imageConfig is written out here, as the specification's type cannot leave
// the platform out.
type imageConfig struct {
	Architecture string         `json:"architecture,omitempty"`
	OS           string         `json:"os,omitempty"`
	Variant      string         `json:"variant,omitempty"`
	OSVersion    string         `json:"os.version,omitempty"`
	OSFeatures   []string       `json:"os.features,omitempty"`
	Config       map[string]any `json:"config"`
	RootFS       ocispec.RootFS `json:"rootfs"`
}

func (o ImageOptions) config(t testing.TB, p oci.Platform, diffs []digest.Digest) oci.Blob {
	t.Helper()
	c := imageConfig{
		Config: map[string]any{"Cmd": []string{"/hello"}},
		RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffs},
	}
	if !o.NoPlatform {
		c.Architecture, c.OS, c.Variant = p.Architecture, p.OS, p.Variant
		c.OSVersion, c.OSFeatures = p.OSVersion, p.OSFeatures
	}
	mediaType := oci.MediaTypeConfig
	if o.Docker {
		mediaType = oci.MediaTypeDockerConfig
	}
	return encode(t, mediaType, Style{}, c, nil)
}

func (o ImageOptions) layers(t testing.TB, platform string) (layers []oci.Blob, diffs []digest.Digest) {
	t.Helper()
	text := o.Text
	if text == "" {
		text = "hello from " + platform + "\n"
	}
	mediaType := mediaTypeLayer
	if o.Docker {
		mediaType = mediaTypeDockerLayer
	}
	for i := range max(1, o.Layers) {
		content := text
		if i < o.Shared {
			content = "shared"
		}
		archive := layerTar(t, content+strings.Repeat("\n", i), o.Pad)
		layers = append(layers, oci.NewBlob(mediaType, compress(t, archive)))
		diffs = append(diffs, digest.FromBytes(archive))
	}
	return layers, diffs
}

func layerTar(t testing.TB, text string, pad int) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(name string, data []byte) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), Format: tar.FormatUSTAR}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	add("hello", []byte(text))
	if pad > 0 {
		add("pad", noise(text, pad))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// noise is the same for the same seed and does not compress.
func noise(seed string, n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8(sha256.Sum256([]byte(seed))).Read(b) // never fails
	return b
}

func compress(t testing.TB, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}
