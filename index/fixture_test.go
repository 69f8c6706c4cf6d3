package index_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func dg(s string) digest.Digest { return digest.FromString(s) }

// image makes an image of an OCI type whose digest is that of its name.
func image(t *testing.T, name, platform string) index.Image {
	t.Helper()
	img := index.Image{Source: "r.example/s/img:" + name, Entry: oci.Entry{Descriptor: oci.Descriptor{
		MediaType: oci.MediaTypeManifest, Digest: dg(name), Size: 424,
	}}}
	if platform != "" {
		p, err := oci.ParsePlatform(platform)
		if err != nil {
			t.Fatal(err)
		}
		img.Entry.Platform = &p
	}
	return img
}

func docker(img index.Image) index.Image {
	img.Entry.MediaType = oci.MediaTypeDockerManifest
	return img
}

// attested adds an attestation whose manifest has the digest of name.
func attested(img index.Image, name string) index.Image {
	e := oci.Entry{Descriptor: oci.Descriptor{MediaType: oci.MediaTypeManifest, Digest: dg(name), Size: 839}}
	img.Attestations = append(img.Attestations, index.Attest(e, img.Entry.Digest))
	return img
}

func assemble(t *testing.T, o index.Options, images ...index.Image) oci.Blob {
	t.Helper()
	b, err := index.Assemble(images, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t *testing.T, b oci.Blob) oci.Index {
	t.Helper()
	idx, err := oci.ParseIndex(b)
	if err != nil {
		t.Fatal(err)
	}
	return idx
}

// lines writes the entries of an index, one a line: digest's start, platform,
// and what an attestation speaks of.
func lines(t *testing.T, b oci.Blob) string {
	t.Helper()
	var out strings.Builder
	for _, e := range parse(t, b).Manifests {
		fmt.Fprintf(&out, "%s", short(e.Digest))
		if e.Platform != nil {
			fmt.Fprintf(&out, " %s", oci.FormatPlatform(*e.Platform))
		}
		if subject, ok := oci.IsAttestation(e.Descriptor); ok {
			fmt.Fprintf(&out, " -> %s", short(subject))
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func short(d digest.Digest) string { return d.Encoded()[:6] }

func raw(mediaType, body string) oci.Blob { return oci.NewBlob(mediaType, []byte(body)) }
