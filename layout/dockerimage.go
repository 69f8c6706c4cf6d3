package layout

import (
	"archive/tar"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// mediaTypeDockerLayer is what an engine calls every layer that it pushes.
const mediaTypeDockerLayer = "application/vnd.docker.image.rootfs.diff.tar.gzip"

// blobSource is where the bytes of a blob come from.
type blobSource struct {
	member string
	size   int64 // of the blob
	// pack says that the blob is the member, compressed.
	pack bool
}

// dockerManifest is the manifest that an engine pushes. Its digest depends on
// the order of the members and on the indent, which are those of
// docker/distribution.
type dockerManifest struct {
	SchemaVersion int                `json:"schemaVersion"`
	MediaType     string             `json:"mediaType"`
	Config        dockerDescriptor   `json:"config"`
	Layers        []dockerDescriptor `json:"layers"`
}

type dockerDescriptor struct {
	MediaType string        `json:"mediaType"`
	Size      int64         `json:"size"`
	Digest    digest.Digest `json:"digest"`
	URLs      []string      `json:"urls,omitempty"`
}

const dockerIndent = "   "

// build makes the manifest of one image, once.
func (d *DockerArchive) build(ctx context.Context, i int) (oci.Blob, error) {
	d.mu.Lock()
	b, ok := d.built[i]
	d.mu.Unlock()
	if ok {
		return b, nil
	}
	b, err := d.make(ctx, d.images[i])
	if err != nil {
		return oci.Blob{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.built[i] = b
	return b, nil
}

func (d *DockerArchive) make(ctx context.Context, item dockerItem) (oci.Blob, error) {
	config, diffs, err := d.config(item)
	if err != nil {
		return oci.Blob{}, err
	}
	layers := make([]dockerDescriptor, len(diffs))
	eg, egctx := errgroup.WithContext(ctx)
	eg.SetLimit(runtime.GOMAXPROCS(0))
	for i, diff := range diffs {
		if s := item.LayerSources[diff]; len(s.URLs) > 0 {
			layers[i] = dockerDescriptor{MediaType: s.MediaType, Size: s.Size, Digest: s.Digest, URLs: s.URLs}
			continue
		}
		eg.Go(func() (err error) {
			layers[i], err = d.layer(egctx, item.Layers[i], diff)
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return oci.Blob{}, err
	}
	m := dockerManifest{SchemaVersion: 2, MediaType: oci.MediaTypeDockerManifest, Config: config, Layers: layers}
	b, err := stdjson.MarshalIndent(m, "", dockerIndent)
	if err != nil {
		return oci.Blob{}, err
	}
	return oci.NewBlob(oci.MediaTypeDockerManifest, b), nil
}

// config reads the config of an image and the digests of its plain layers.
func (d *DockerArchive) config(item dockerItem) (dockerDescriptor, []digest.Digest, error) {
	b, err := d.readMember(item.Config, oci.MaxConfigSize)
	if err != nil {
		return dockerDescriptor{}, nil, err
	}
	var v struct {
		RootFS struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return dockerDescriptor{}, nil, d.layout.errorf("%s: %w", item.Config, err)
	}
	diffs := v.RootFS.DiffIDs
	if len(diffs) != len(item.Layers) {
		return dockerDescriptor{}, nil, d.layout.errorf("%s: speaks of %d layers, %s of %d", item.Config, len(diffs), dockerManifestFile, len(item.Layers))
	}
	for _, diff := range diffs {
		if err := diff.Validate(); err != nil {
			return dockerDescriptor{}, nil, d.layout.errorf("%s: diff_id %q: %w", item.Config, diff, err)
		}
	}
	c := dockerDescriptor{MediaType: oci.MediaTypeDockerConfig, Size: int64(len(b)), Digest: digest.FromBytes(b)}
	d.note(c.Digest, blobSource{member: item.Config, size: c.Size})
	return c, diffs, nil
}

// packed is a layer that is compressed at most once, whoever asks.
type packed struct {
	done       chan struct{}
	descriptor dockerDescriptor
	err        error
}

// layer compresses a layer to learn its digest. Images share layers.
func (d *DockerArchive) layer(ctx context.Context, member string, diff digest.Digest) (dockerDescriptor, error) {
	d.mu.Lock()
	p, ok := d.layers[diff]
	if !ok {
		p = &packed{done: make(chan struct{})}
		d.layers[diff] = p
	}
	d.mu.Unlock()
	if ok {
		select {
		case <-p.done:
			return p.descriptor, p.err
		case <-ctx.Done():
			return dockerDescriptor{}, context.Cause(ctx)
		}
	}
	defer close(p.done)
	p.descriptor, p.err = d.measure(ctx, member, diff)
	if p.err != nil {
		d.mu.Lock()
		delete(d.layers, diff) // so that an interrupted try is none
		d.mu.Unlock()
	}
	return p.descriptor, p.err
}

func (d *DockerArchive) measure(ctx context.Context, member string, diff digest.Digest) (dockerDescriptor, error) {
	plain, err := d.openPlain(ctx, member)
	if err != nil {
		return dockerDescriptor{}, err
	}
	defer plain.Close()
	size, sum, got, err := pack(io.Discard, plain, diff.Algorithm())
	if err != nil {
		return dockerDescriptor{}, &Error{Path: d.layout.path, Err: fmt.Errorf("%s: %w", member, err)}
	}
	if got != diff {
		return dockerDescriptor{}, &Error{Path: d.layout.path, Err: fmt.Errorf("%s: %w", member,
			&oci.MismatchError{What: "digest of the plain layer", Want: diff.String(), Got: got.String()})}
	}
	d.note(sum, blobSource{member: member, size: size, pack: true})
	return dockerDescriptor{MediaType: mediaTypeDockerLayer, Size: size, Digest: sum}, nil
}

func (d *DockerArchive) note(sum digest.Digest, s blobSource) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blobs[sum] = s
}

// source finds a blob. One that is not known may be of an image that nobody has
// resolved, as when a plan is carried out later.
func (d *DockerArchive) source(ctx context.Context, want oci.Descriptor) (blobSource, error) {
	if err := want.Digest.Validate(); err != nil {
		return blobSource{}, d.layout.errorf("digest %q: %w", want.Digest, err)
	}
	known := func() bool { _, ok := d.blob(want.Digest); return ok }
	if err := d.buildAll(ctx, known); err != nil {
		return blobSource{}, err
	}
	s, ok := d.blob(want.Digest)
	if !ok {
		return s, &MissingError{Path: d.layout.path, Digest: want.Digest}
	}
	return s, nil
}

func (d *DockerArchive) blob(sum digest.Digest) (blobSource, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s, ok := d.blobs[sum]
	return s, ok
}

func (d *DockerArchive) manifest(sum digest.Digest) (oci.Blob, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, b := range d.built {
		if b.Digest == sum {
			return b, true
		}
	}
	return oci.Blob{}, false
}

// buildAll makes the manifests of all images until enough says that it may
// stop.
func (d *DockerArchive) buildAll(ctx context.Context, enough func() bool) error {
	for i := range d.images {
		if enough() {
			return nil
		}
		if _, err := d.build(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// noteLinks collects the links of an archive: older engines store a layer once
// and link to it from the other images.
func noteLinks(links map[string]string) func(*tar.Header) {
	return func(h *tar.Header) {
		name := memberName(h.Name)
		switch h.Typeflag {
		case tar.TypeSymlink:
			links[name] = path.Join(path.Dir(name), h.Linkname)
		case tar.TypeLink:
			links[name] = memberName(h.Linkname)
		}
	}
}

// maxLinks bounds a chain of links.
const maxLinks = 8

func (d *DockerArchive) openMember(name string) (file, error) {
	at := memberName(name)
	for range maxLinks {
		to, ok := d.links[at]
		if !ok {
			break
		}
		at = to
	}
	f, err := d.layout.store.open(at)
	if isNotExist(err) {
		return file{}, d.layout.errorf("%s: is named in %s and is not in the archive", name, dockerManifestFile)
	}
	if err != nil {
		return file{}, &Error{Path: d.layout.path, Err: fmt.Errorf("%s: %w", name, reason(err))}
	}
	return f, nil
}

func (d *DockerArchive) readMember(name string, limit int64) ([]byte, error) {
	f, err := d.openMember(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if f.size > limit {
		return nil, d.layout.errorf("%s: %d bytes, the limit is %d", name, f.size, limit)
	}
	b, err := io.ReadAll(f)
	if err == nil && int64(len(b)) != f.size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return nil, d.layout.errorf("%s: %w", name, err)
	}
	return b, nil
}

var errUnpack = errors.New("is compressed in a way that is not read here: xz or bzip2")

// compressedWith names the compression of a file by its first bytes.
func compressedWith(head []byte) string {
	for name, magic := range compressions() {
		if len(head) >= len(magic) && slices.Equal(head[:len(magic)], magic) {
			return name
		}
	}
	return ""
}
