package buildkit

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"
	"testing/iotest"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/plugins/services/content/contentserver"
	"github.com/containerd/errdefs"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// serveContent serves a store as a node does, or nothing at all.
func serveContent(t *testing.T, s content.Store) nodeContent {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	if s != nil {
		contentapi.RegisterContentServer(server, contentserver.New(s))
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	conn, err := grpc.NewClient("unix://"+l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return nodeContent{contentapi.NewContentClient(conn)}
}

// storeOf is a store that has blobs.
func storeOf(t *testing.T, blobs ...[]byte) *Store {
	t.Helper()
	s := NewStore(t.TempDir())
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, b := range blobs {
		d := describe(b)
		if err := send(t, s, d.Digest.String(), d, b); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestContentOfANodeIsReadWhole(t *testing.T) {
	// A node sends a megabyte at a time.
	for _, size := range []int{1, 1<<20 - 1, 1 << 20, 1<<20 + 1, 5<<20 + 7} {
		b := noise(size)
		d := describe(b)
		r, err := serveContent(t, storeOf(t, b)).open(t.Context(), d)
		if err != nil {
			t.Fatalf("%d bytes: %v", size, err)
		}
		got, err := io.ReadAll(r)
		if err != nil || oci.Check(d, got) != nil {
			t.Errorf("%d bytes: %d came, %v", size, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestContentThatANodeHasNotIsAnErrorBeforeAnythingIsRead(t *testing.T) {
	b := noise(10)
	for name, s := range map[string]content.Store{"no such blob": storeOf(t), "no content service": nil} {
		if _, err := serveContent(t, s).open(t.Context(), describe(b)); err == nil {
			t.Errorf("%s: opened", name)
		}
	}
}

func TestClosedContentEndsItsReader(t *testing.T) {
	b := noise(9 << 20)
	r, err := serveContent(t, storeOf(t, b)).open(t.Context(), describe(b))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, r); err == nil || n == int64(len(b)) {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestAnswersWithContentAreReadStrictly(t *testing.T) {
	offset := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1<<40)
	data := protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), []byte("abc"))
	codec := pieceCodec{encoding.GetCodecV2(proto.Name)}
	for name, c := range map[string]struct{ in, want string }{
		"both":    {string(offset) + string(data), "abc"},
		"data":    {string(data), "abc"},
		"offset":  {string(offset), ""},
		"nothing": {"", ""},
	} {
		var p piece
		err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.in)}, &p)
		got, _ := io.ReadAll(&p)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for name, in := range map[string]string{
		"cut in a tag":     "\x88",
		"cut in an offset": string(offset[:3]),
		"cut in the data":  string(data[:3]),
		"more after data":  string(data) + string(offset),
		"another field":    string(protowire.AppendBytes(protowire.AppendTag(nil, 3, protowire.BytesType), []byte("abc"))),
	} {
		if err := codec.Unmarshal(mem.BufferSlice{mem.SliceBuffer(in)}, &piece{}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// offer asks what a node asks before it writes.
func offer(t *testing.T, s *Store, b []byte) error {
	t.Helper()
	_, err := s.Writer(t.Context(), content.WithRef("layer-x"), content.WithDescriptor(describe(b)))
	return err
}

func TestRelayReadsFromTheNodeAndHasItWriteNothing(t *testing.T) {
	r := registrytest.Distribution(t)
	b := noise(3 << 20)
	s := relayStore(t, r)
	s.source = serveContent(t, storeOf(t, b))
	if err := offer(t, s, b); !errdefs.IsAlreadyExists(err) {
		t.Errorf("got %v", err)
	}
	if d := describe(b); !r.HasBlob("d/app", d.Digest) || !s.isPresent(d.Digest) {
		t.Error("it is not there")
	}
}

func TestRelayLetsTheNodeWriteWhatCannotBeRead(t *testing.T) {
	b := noise(1 << 20)
	for name, from := range map[string]content.Store{"no such blob": storeOf(t), "no content service": nil} {
		r := registrytest.Distribution(t)
		s := relayStore(t, r)
		s.source = serveContent(t, from)
		if err := send(t, s, "layer-x", describe(b), b); err != nil || !r.HasBlob("d/app", describe(b).Digest) {
			t.Errorf("%s: %v\n%s", name, err, r.Transcript())
		}
	}
}

// sourceFunc is a source of the test's own.
type sourceFunc func(context.Context) (io.ReadCloser, error)

func (f sourceFunc) open(ctx context.Context, _ oci.Descriptor) (io.ReadCloser, error) { return f(ctx) }

func TestRelayTakesNoOtherBytesFromTheNode(t *testing.T) {
	b := noise(1 << 20)
	broken := errors.New("the disk is broken")
	for name, body := range map[string]io.Reader{
		"others":  bytes.NewReader(noise(1<<20 + 1)[1:]),
		"fewer":   bytes.NewReader(b[1:]),
		"a break": io.MultiReader(bytes.NewReader(b[1:]), iotest.ErrReader(broken)),
	} {
		r := registrytest.Distribution(t)
		s := relayStore(t, r)
		s.source = sourceFunc(func(context.Context) (io.ReadCloser, error) { return io.NopCloser(body), nil })
		err := offer(t, s, b)
		if err == nil || errdefs.IsAlreadyExists(err) || s.isPresent(describe(b).Digest) || r.HasBlob("d/app", describe(b).Digest) {
			t.Errorf("%s: got %v\n%s", name, err, r.Transcript())
		}
		if failure := s.takeFailure(); !errors.Is(failure, err) || registry.Passing(failure) {
			t.Errorf("%s: remembered %v", name, failure)
		}
		if name == "a break" && !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRelayThatIsCancelledIsNotWhatFailed(t *testing.T) {
	r := registrytest.Distribution(t)
	b := noise(1 << 20)
	s := relayStore(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	s.source = sourceFunc(func(context.Context) (io.ReadCloser, error) {
		cancel()
		return io.NopCloser(bytes.NewReader(b)), nil
	})
	if _, err := s.Writer(ctx, content.WithRef("layer-x"), content.WithDescriptor(describe(b))); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := s.takeFailure(); err != nil {
		t.Errorf("remembered %v", err)
	}
}

func TestNodeServesWhatItHasBuilt(t *testing.T) {
	r := registrytest.Distribution(t)
	spec := newSpec(t, buildContext(t, copyFile, 3<<20), parsePlatforms(t, "linux/amd64"), r.Reference("d/app", "1"))
	n := openPair(t)
	im := runWith(t, n, spec, BuildOptions{Registry: newClient(), Relay: true})[0]
	p := n.Build(spec, BuildOptions{})[0].(*port)
	for _, d := range im.Relayed {
		body, err := p.content(t.Context()).open(t.Context(), oci.Descriptor{Digest: d.Digest, Size: d.Size})
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(body)
		if err != nil || oci.Check(oci.Descriptor{Digest: d.Digest, Size: d.Size}, b) != nil {
			t.Errorf("%d bytes of %s: %v", len(b), d.Digest, err)
		}
		if err := body.Close(); err != nil {
			t.Error(err)
		}
	}
	if len(im.Relayed) == 0 {
		t.Error("nothing was relayed")
	}
}
