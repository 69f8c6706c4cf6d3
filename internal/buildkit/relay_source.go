package buildkit

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	contentapi "github.com/containerd/containerd/api/services/content/v1"
	"github.com/manifold-oci/manifold/oci"
	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// source has the bytes of blobs that a node offers. An error of open says that
// the node has to write this one; the store then receives it.
type source interface {
	open(context.Context, oci.Descriptor) (io.ReadCloser, error)
}

// nodeContent reads a node's content store, which BuildKit serves beside its
// control API since it keeps a history of builds (0.11). A blob is one stream.
// What a node writes takes about three times the processor time on both sides:
// it travels over the session, which is gRPC inside gRPC, and every megabyte is
// answered before the next is sent.
type nodeContent struct{ api contentapi.ContentClient }

// content is the node's content store, over the connection that it builds on.
func (p *port) content(ctx context.Context) source {
	if p.contents != nil {
		return p.contents(ctx)
	}
	c, err := p.machine.Driver.Client(context.WithoutCancel(ctx))
	if err != nil {
		return nil // the build will say so
	}
	return nodeContent{c.ContentClient()}
}

func (c nodeContent) open(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(ctx)
	codec := pieceCodec{encoding.GetCodecV2(proto.Name)}
	stream, err := c.api.Read(ctx, &contentapi.ReadContentRequest{Digest: d.Digest.String()}, grpc.ForceCodecV2(codec))
	if err != nil {
		cancel()
		return nil, err
	}
	b := &nodeBlob{stream: stream, cancel: cancel}
	if err := stream.RecvMsg(&b.rest); err != nil {
		cancel()
		return nil, err
	}
	return b, nil
}

// nodeBlob is a blob on its way from a node. gRPC receives ahead of the reader as
// far as its windows reach; a queue of more was tried and made nothing faster.
type nodeBlob struct {
	stream grpc.ClientStream
	cancel context.CancelFunc
	rest   piece
}

// Read reads what came, then the error that the stream ended with, which is a
// [*LostError]: whoever sends these bytes on is to know that it is not his.
func (b *nodeBlob) Read(p []byte) (int, error) {
	for b.rest.Remaining() == 0 {
		err := b.stream.RecvMsg(&b.rest)
		if err == io.EOF {
			return 0, err
		}
		if err != nil {
			return 0, &LostError{Err: err}
		}
	}
	return b.rest.Read(p)
}

// Close ends the stream. It may come while Read is under way: net/http can still
// be reading a body when its request has failed. What was received is left to
// the garbage collector then.
func (b *nodeBlob) Close() error {
	b.cancel()
	return nil
}

// piece is the data of one answer, in the buffers that it was received in:
// decoding it the usual way copies every byte twice and makes a megabyte of
// garbage for each megabyte that passes.
type piece struct{ mem.Reader }

// pieceCodec reads content.v1.ReadContentResponse into a piece, and everything
// else as the codec inside it does.
type pieceCodec struct{ encoding.CodecV2 }

// Unmarshal is called by gRPC.
func (c pieceCodec) Unmarshal(data mem.BufferSlice, v any) error {
	p, ok := v.(*piece)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	p.Reset(data)
	return p.seek()
}

// Tags of the fields of ReadContentResponse.
const (
	tagOffset = 1 << 3   // a varint
	tagData   = 2<<3 | 2 // bytes
)

// seek goes to the data, the last field. None is no data.
func (p *piece) seek() error {
	for p.Remaining() > 0 {
		tag, err := binary.ReadUvarint(p)
		if err != nil {
			return fmt.Errorf("content answer: %w", err)
		}
		n, err := binary.ReadUvarint(p)
		switch {
		case err != nil:
			return fmt.Errorf("content answer: %w", err)
		case tag == tagData && n == uint64(p.Remaining()):
			return nil
		case tag != tagOffset:
			return fmt.Errorf("content answer: field with tag %d, of %d bytes, where data was expected", tag, n)
		}
	}
	return nil
}
