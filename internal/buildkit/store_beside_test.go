package buildkit

import (
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/oci"
)

// Beside a push, layers are not sent whatever their digest; what else comes is
// taken, and the index is found among it.
func TestExportBesideAPushBringsAllButLayers(t *testing.T) {
	s := NewStore(t.TempDir())
	s.beside = &beside{}
	layer := oci.NewBlob("", []byte("layer"))
	if _, err := s.Writer(t.Context(), content.WithRef("layer-"+layer.Digest.String()), content.WithDescriptor(layer.Descriptor)); !errdefs.IsAlreadyExists(err) {
		t.Errorf("layer: %v", err)
	}
	if _, ok := s.beside.index(); ok {
		t.Error("an index before one was sent")
	}
	for _, prefix := range []string{"intoto-", "config-", "manifest-", "unknown-", "index-"} {
		b := oci.NewBlob("", []byte(prefix))
		if err := send(t, s, prefix+b.Digest.String(), b.Descriptor, b.Bytes); err != nil {
			t.Errorf("%s: %v", prefix, err)
		}
		if root, ok := s.beside.index(); ok != (prefix == "index-") || ok && (root.Digest != b.Digest || root.Size != b.Size) {
			t.Errorf("after %s: index %v, %v", prefix, root, ok)
		}
	}
}

// An export that is of another image than the one that was pushed is not used.
func TestExportBesideAPushIsOfTheImageThatWasPushed(t *testing.T) {
	s := NewStore(t.TempDir())
	s.beside = &beside{}
	config := put(t, s, oci.MediaTypeConfig, object{})
	image := put(t, s, oci.MediaTypeManifest, manifestOf(config, nil))
	attestation := put(t, s, oci.MediaTypeManifest, manifestOf(config, object{"annotations": object{"c": "d"}}))

	got, err := readBeside(s, image)
	if err != nil || len(got.attestations) > 0 {
		t.Errorf("without an index: %+v, %v", got, err)
	}
	index := oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"mediaType":"`+oci.MediaTypeIndex+`","manifests":[`+
		text(t, entry(image, nil))+`,`+text(t, entry(attestation, speaksOf(image.Digest)))+`]}`))
	if err := send(t, s, "index-"+index.Digest.String(), index.Descriptor, index.Bytes); err != nil {
		t.Fatal(err)
	}
	if got, err = readBeside(s, image); err != nil || len(got.attestations) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := readBeside(s, attestation); err == nil {
		t.Error("the attestations of another image were taken")
	}
}
