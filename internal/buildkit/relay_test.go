package buildkit

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/ref"
)

func relayStore(t *testing.T, r *registrytest.Registry) *Store {
	t.Helper()
	repo, err := ref.Parse(r.Host + "/d/app")
	if err != nil {
		t.Fatal(err)
	}
	s := NewStore(t.TempDir())
	s.relay = newRelay(repo, newClient(), nil)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestRelayedBlobIsInTheRegistryWhenItIsCommitted(t *testing.T) {
	r := registrytest.Distribution(t)
	s := relayStore(t, r)
	b := noise(5 << 20)
	d := describe(b)
	if err := send(t, s, "layer-"+d.Digest.String(), d, b); err != nil {
		t.Fatal(err)
	}
	if !r.HasBlob("d/app", d.Digest) {
		t.Error("it is not there")
	}
	if n := files(t, s.dir); n != 0 || s.bytesReceived() != 0 {
		t.Errorf("%d files, %d bytes kept", n, s.bytesReceived())
	}
	if err := send(t, s, "layer-again", d, b); !errdefs.IsAlreadyExists(err) {
		t.Errorf("sent again: %v", err)
	}
}

func TestRelayLeavesManifestsAndSmallBlobsToThePlan(t *testing.T) {
	r := registrytest.Distribution(t)
	s := relayStore(t, r)
	small, manifest := noise(relayFrom-1), noise(relayFrom+1)
	for ref, b := range map[string][]byte{"layer-small": small, "manifest-large": manifest} {
		if err := send(t, s, ref, describe(b), b); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(read(t, s, describe(b)), b) {
			t.Errorf("%s is not kept", ref)
		}
	}
	if n := len(r.Log()); n != 0 {
		t.Errorf("the registry was asked\n%s", r.Transcript())
	}
}

func TestRelayedBytesThatAreOthersAreRefused(t *testing.T) {
	r := registrytest.Distribution(t)
	s := relayStore(t, r)
	b := noise(1 << 20)
	d := describe(b)
	b[0]++
	if err := send(t, s, "layer-x", d, b); err == nil {
		t.Error("committed")
	}
	if r.HasBlob("d/app", d.Digest) || s.isPresent(d.Digest) {
		t.Error("it is there")
	}
	if err := s.takeFailure(); err == nil {
		t.Error("what the registry said is forgotten")
	}
}

func TestRelayedBlobThatIsGivenUpLeavesNoSession(t *testing.T) {
	r := registrytest.Distribution(t)
	s := relayStore(t, r)
	b := noise(1 << 20)
	d := describe(b)
	w, err := s.Writer(t.Context(), content.WithRef("layer-x"), content.WithDescriptor(d))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b[:1000]); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if left := r.Uploads("d/app"); len(left) > 0 || r.Count(registrytest.Filter{Method: "DELETE", Path: "/uploads/"}) == 0 {
		t.Errorf("sessions left: %v\n%s", left, r.Transcript())
	}
	if err := send(t, s, "layer-x", d, b); err != nil || !r.HasBlob("d/app", d.Digest) {
		t.Errorf("not sent a second time: %v", err)
	}
}

func TestQueueEndsWithWhatTheOtherSideSays(t *testing.T) {
	broken := errors.New("broken")
	r, w := newQueue()
	if _, err := w.Write([]byte("abc")); err != nil {
		t.Fatal(err)
	}
	w.CloseWithError(broken)
	if b, err := io.ReadAll(r); string(b) != "abc" || !errors.Is(err, broken) {
		t.Errorf("%q, %v", b, err)
	}
	r, w = newQueue()
	r.CloseWithError(broken)
	for range queueLength + 1 {
		if _, err := w.Write([]byte("abc")); !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
	}
}
