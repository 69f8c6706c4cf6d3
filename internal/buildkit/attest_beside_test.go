package buildkit

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
)

// blobsOf is a node's content store, as a map.
type blobsOf map[string][]byte

func (b blobsOf) open(_ context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	raw, ok := b[d.Digest.String()]
	if !ok {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(strings.NewReader(string(raw))), nil
}

func (b blobsOf) put(t *testing.T, mediaType string, v any) oci.Blob {
	t.Helper()
	blob := oci.NewBlob(mediaType, []byte(text(t, v)))
	b[blob.Digest.String()] = blob.Bytes
	return blob
}

func answered(t *testing.T, root oci.Blob, config string) result {
	t.Helper()
	s := NewStore(t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return result{target: target{store: s}, response: &client.SolveResponse{ExporterResponse: map[string]string{
		exptypes.ExporterImageDescriptorKey:   base64Of(text(t, root.Descriptor)),
		exptypes.ExporterImageConfigDigestKey: config,
	}}}
}

// What was made beside a push is read without the image, and is not taken if a
// part of it is gone or the push was a list.
func TestWhatWasMadeBesideAPushIsReadFromTheNode(t *testing.T) {
	node := blobsOf{}
	config := node.put(t, oci.MediaTypeConfig, object{})
	image := oci.NewBlob(oci.MediaTypeManifest, []byte(text(t, manifestOf(config, nil))))
	statement := node.put(t, "application/vnd.in-toto+json", object{"predicateType": "p"})
	attestation := node.put(t, oci.MediaTypeManifest, manifestOf(config, object{"layers": []object{entry(statement, nil)}}))
	root := node.put(t, oci.MediaTypeIndex, object{
		"schemaVersion": 2, "mediaType": oci.MediaTypeIndex,
		"manifests": []object{entry(image, nil), entry(attestation, speaksOf(image.Digest))},
	})

	attest := func(root oci.Blob, config string) (build.Image, error) {
		r := answered(t, root, config)
		var err error
		if r.beside, err = readBeside(t.Context(), r, node); err != nil {
			return build.Image{}, err
		}
		var im build.Image
		if made := fetchBeside(t.Context(), []result{r})()[0]; made == nil {
			err = errors.New("still to be attested")
		} else {
			made.join(&im, r.store)
		}
		im.Manifest.Descriptor, _ = r.image()
		return im, err
	}
	im, err := attest(root, config.Digest.String())
	if err != nil || im.Manifest.Digest != image.Digest || len(im.Attestations) != 1 || im.Attestations[0].Digest != attestation.Digest {
		t.Fatalf("%+v, %v", im, err)
	}
	checkBlob(t, im.Content, statement.Descriptor)

	if im, err := attest(image, config.Digest.String()); err != nil || im.Manifest.Digest != image.Digest || len(im.Attestations) > 0 {
		t.Errorf("an image that is not attested: %+v, %v", im, err)
	}
	if _, err := attest(root, ""); err == nil {
		t.Error("the push of a list was not noticed")
	}
	for name, b := range map[string]oci.Blob{"index": root, "attestation": attestation, "statement": statement} {
		kept := node[b.Digest.String()]
		delete(node, b.Digest.String())
		if _, err := attest(root, config.Digest.String()); err == nil {
			t.Errorf("%s is gone: not noticed", name)
		}
		node[b.Digest.String()] = append([]byte("x"), kept...)
		if _, err := attest(root, config.Digest.String()); err == nil {
			t.Errorf("%s is another: taken", name)
		}
		node[b.Digest.String()] = kept
	}
}

// A node that has not kept what it made beside the push is asked to push again,
// from its cache, and the second pass attests.
func TestProvenanceThatTheNodeHasLostIsMadeAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	n := openPair(t)
	spec := newSpec(t, buildContext(t, copyFile, 1<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	spec.Options.NoCache = true
	var shown names
	p := n.Build(spec, BuildOptions{Registry: newClient(), Progress: &shown})[0].(*port)
	p.contents = func(context.Context) source { return blobsOf{} }
	images, err := p.direct(t.Context(), spec.Platforms, false)
	if err != nil {
		t.Fatal(err)
	}
	checkAttestations(t, images[0], r.Reference("d/app", "1"))
	if got := r.Summary("d/app"); got != "manifest 1" || len(images[0].Leftovers) > 0 {
		t.Errorf("%s, leftovers %v", got, images[0].Leftovers)
	}
	if !strings.Contains(shown.String(), attestationLabel) {
		t.Errorf("steps:\n%s", shown.String())
	}
}

// A base image that a node need not unpack stays in its registry: attestations are
// no reason to fetch it.
func TestProvenanceNeedsNoLayerOfTheBaseImage(t *testing.T) {
	r := registrytest.Distribution(t)
	ps := parsePlatforms(t, "linux/amd64")
	base := newSpec(t, buildContext(t, copyFile, 1<<20), ps, r.Reference("d/base", "1"))
	im := runWith(t, openPair(t), base, BuildOptions{Registry: newClient()})[0]
	m, err := oci.ParseManifest(im.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	// Of the ways to keep file systems this one fetches layers when they are used.
	endpoint, _ := startNodeWith(t, "linux/amd64", "overlayfs")
	f, err := ParseNodeFlag("linux/amd64=" + endpoint)
	if err != nil {
		t.Fatal(err)
	}
	from := "FROM " + r.Reference("d/base", "") + "@" + im.Manifest.Digest.String() + "\nCOPY --link file /own\n"
	spec := newSpec(t, buildContext(t, from, 1), ps, r.Reference("d/app", "1"))
	r.Reset()
	o := BuildOptions{Registry: newClient(), NoBinaryCheck: true}
	im = runWith(t, openNodes(t, NodeOptions{Nodes: []NodeFlag{f}}), spec, o)[0]
	checkAttestations(t, im, r.Reference("d/app", "1"))
	if n := r.Count(registrytest.Filter{Method: "GET", Path: "/blobs/" + m.Layers[0].Digest.String()}); n > 0 {
		t.Errorf("the layer was fetched %d times\n%s", n, r.Transcript())
	}
}
