package registry_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/registry"
)

func TestStreamedBlobCostsOnePostAndOnePut(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		b := big(t, 1<<20)
		repo := repo(t, r.Host, "d/x", registry.Options{})
		outcome, send, err := repo.BeginBlob(t.Context(), b.Descriptor, nil)
		noError(t, err)
		if outcome != registry.Uploaded || send == nil {
			t.Fatalf("%s", outcome)
		}
		noError(t, send(t.Context(), bytes.NewReader(b.Bytes)))
		wantLog(t, r, "POST uploads Accepted", "PUT uploads Created")
		if !r.HasBlob("d/x", b.Digest) {
			t.Error("the blob is not there")
		}
	})
}

func TestStreamThatIsNotNeededHasNothingToSend(t *testing.T) {
	r := registrytest.Distribution(t)
	b := image(t).Blobs[1]
	r.PushBlob("d/x", b)
	outcome, send, err := repo(t, r.Host, "d/x", registry.Options{}).BeginBlob(t.Context(), b.Descriptor, nil)
	noError(t, err)
	if outcome != registry.Present || send != nil {
		t.Errorf("%s", outcome)
	}
	wantLog(t, r, "POST uploads Created")
}

func TestStreamThatBreaksIsNotSentAgain(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 3<<20)
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.CutRequest, After: 1 << 20})
	_, send, err := repo(t, r.Host, "d/x", registry.Options{}).BeginBlob(t.Context(), b.Descriptor, nil)
	noError(t, err)
	if err := send(t.Context(), bytes.NewReader(b.Bytes)); err == nil || errors.Is(err, registry.ErrOnce) {
		t.Errorf("got %v, want what went wrong first", err)
	}
	if n := r.Count(registrytest.Filter{Method: "PUT"}); n != 1 {
		t.Errorf("%d PUTs\n%s", n, r.Transcript())
	}
}

func TestLostAnswerToAStreamIsSettledByHead(t *testing.T) {
	r := registrytest.Distribution(t)
	b := big(t, 1<<20)
	r.Fault(registrytest.Fault{Method: "PUT", Cut: registrytest.LoseAnswer})
	_, send, err := repo(t, r.Host, "d/x", registry.Options{}).BeginBlob(t.Context(), b.Descriptor, nil)
	noError(t, err)
	noError(t, send(t.Context(), bytes.NewReader(b.Bytes)))
}
