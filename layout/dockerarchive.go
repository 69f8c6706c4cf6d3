package layout

import (
	"context"
	"io"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// dockerManifestFile lists the images of an archive of "docker save".
const dockerManifestFile = "manifest.json"

// DockerArchive is an archive of "docker save" that is open for reading, in any
// of its forms. It is safe for concurrent use.
//
// An archive of an engine that keeps images in containerd, or of BuildKit, is
// an image layout too and holds the manifests that such an engine pushes: they
// are read as they are.
//
// An archive of any other engine holds configs and plain layers, and no
// manifest: it is made here, with the layers compressed, and is byte for byte
// what "docker push" sends for an image whose layers the engine has neither
// pulled nor pushed before (it remembers those and sends them as it knows
// them). That is so as long as compress/gzip of the Go that this program is
// built with and of the engine's agree: a test compares an engine built with Go
// 1.19. Should they not, the manifest still names exactly the bytes that are
// sent, only not those of that engine.
//
// Layers are compressed while they are read: once when the manifest is made, to
// know digest and size, and again when the blob is opened. No blob is kept.
type DockerArchive struct {
	layout *Layout
	links  map[string]string // of the archive, by member
	images []dockerItem      // of manifest.json
	// plain says that manifests have to be made.
	plain bool
	temp  string // file to remove in the end, where it could not be before

	mu    sync.Mutex
	built map[int]oci.Blob // manifests made, by place in images
	// layers that were compressed, by what they are uncompressed.
	layers map[digest.Digest]*packed
	blobs  map[digest.Digest]blobSource // of manifests made
}

// dockerItem is one image in manifest.json.
type dockerItem struct {
	Config       string
	RepoTags     []string
	Layers       []string
	LayerSources map[digest.Digest]oci.Descriptor
}

// OpenDockerArchive opens the archive at path. Errors are [*Error] with the
// path.
func OpenDockerArchive(path string) (*DockerArchive, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, &Error{Path: path, Err: reason(err)}
	}
	return newDockerArchive(path, f)
}

// newDockerArchive takes over f.
func newDockerArchive(path string, f *os.File) (*DockerArchive, error) {
	links := map[string]string{}
	members, err := scanWith(f, noteLinks(links))
	if err != nil {
		_ = f.Close()
		return nil, &Error{Path: path, Err: err}
	}
	d := &DockerArchive{
		layout: &Layout{path: path, store: &archive{f: f, members: members}},
		links:  links, built: map[int]oci.Blob{}, layers: map[digest.Digest]*packed{}, blobs: map[digest.Digest]blobSource{},
	}
	_, isLayout := members[ocispec.ImageIndexFile]
	if err := d.readImages(isLayout); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// readImages reads manifest.json and decides which form the archive has. Where
// index.json is there too, only an engine without containerd says where layers
// came from, and its index names manifests that it never pushes.
func (d *DockerArchive) readImages(isLayout bool) error {
	d.plain = !isLayout
	f, err := d.layout.store.open(dockerManifestFile)
	if isNotExist(err) {
		if isLayout {
			return d.layout.checkVersion()
		}
		return d.layout.errorf("is not an archive of docker save: %s is missing", dockerManifestFile)
	}
	if err != nil {
		return err
	}
	_ = f.Close()
	b, err := d.layout.readFile(dockerManifestFile, oci.MaxManifestSize)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &d.images); err != nil {
		return d.layout.errorf("%s: %w", dockerManifestFile, err)
	}
	if slices.ContainsFunc(d.images, func(i dockerItem) bool { return len(i.LayerSources) > 0 }) {
		d.plain = true
	}
	return nil
}

// Close releases the archive. Blobs still open end with an error.
func (d *DockerArchive) Close() error {
	err := d.layout.Close()
	if d.temp != "" {
		_ = os.Remove(d.temp) // most systems have let go of it already
	}
	return err
}

// Resolve reads the manifest or index of an image by its name, its ID or "@N" for
// the Nth in manifest.json, counted from 0; an empty name is the only image. An
// ID is the digest of the config and, where the archive has manifests, that of
// the index or manifest; it may be without sha256:, and shortened to 4 digits or
// more. Errors: [*TagError], [*Error].
func (d *DockerArchive) Resolve(ctx context.Context, name string) (oci.Blob, error) {
	if !d.plain {
		return d.resolveLayout(ctx, name)
	}
	found := d.find(name)
	if len(found) != 1 {
		return oci.Blob{}, &TagError{Path: d.layout.path, Tag: name, Ambiguous: len(found) > 1, Have: d.names()}
	}
	return d.build(ctx, found[0])
}

// fullName is a reference as Docker completes it, "" for what is none.
func fullName(s string) string {
	r, err := ref.Parse(s)
	if err != nil || digest.Digest(s).Validate() == nil {
		return ""
	}
	return r.OrLatest().String()
}

// find returns the images that a name means, each config once.
func (d *DockerArchive) find(name string) []int {
	if n, ok := strings.CutPrefix(name, "@"); ok {
		if i, err := strconv.Atoi(n); err == nil && i >= 0 && i < len(d.images) {
			return []int{i}
		}
		return nil
	}
	if found := d.distinct(func(i dockerItem) bool { return i.answersTo(name) }); len(found) > 0 {
		return found
	}
	id := imageID(name)
	return d.distinct(func(i dockerItem) bool { return id != "" && strings.HasPrefix(path.Base(i.Config), id) })
}

// distinct lists images by their places, each config once.
func (d *DockerArchive) distinct(wanted func(dockerItem) bool) []int {
	var out []int
	seen := map[string]bool{}
	for i, img := range d.images {
		if seen[img.Config] || !wanted(img) {
			continue
		}
		seen[img.Config] = true
		out = append(out, i)
	}
	return out
}

func (i dockerItem) answersTo(name string) bool {
	if name == "" || slices.Contains(i.RepoTags, name) {
		return true
	}
	full := fullName(name)
	return full != "" && slices.ContainsFunc(i.RepoTags, func(t string) bool { return fullName(t) == full })
}

// names are those of the images, and the place of what has none.
func (d *DockerArchive) names() []string {
	var out []string
	for i, item := range d.images {
		out = append(out, item.RepoTags...)
		if len(item.RepoTags) == 0 {
			out = append(out, "@"+strconv.Itoa(i))
		}
	}
	return out
}

// FetchManifest is [Layout.FetchManifest].
func (d *DockerArchive) FetchManifest(ctx context.Context, want oci.Descriptor) (oci.Blob, error) {
	if !d.plain {
		return d.layout.FetchManifest(ctx, want)
	}
	if err := d.buildAll(ctx, func() bool { _, ok := d.manifest(want.Digest); return ok }); err != nil {
		return oci.Blob{}, err
	}
	b, ok := d.manifest(want.Digest)
	if !ok {
		return oci.Blob{}, &MissingError{Path: d.layout.path, Digest: want.Digest}
	}
	if err := oci.Check(want, b.Bytes); err != nil {
		return oci.Blob{}, d.layout.about(want, err)
	}
	return b, nil
}

// OpenBlob is [Layout.OpenBlob].
func (d *DockerArchive) OpenBlob(ctx context.Context, want oci.Descriptor) (io.ReadCloser, error) {
	if !d.plain {
		return d.layout.OpenBlob(ctx, want)
	}
	src, err := d.source(ctx, want)
	if err != nil {
		return nil, err
	}
	if err := sizeFault(want, src.size); err != nil {
		return nil, d.layout.about(want, err)
	}
	rc, err := d.openSource(ctx, src)
	if err != nil {
		return nil, err
	}
	return &verifier{layout: d.layout, want: want, file: file{ReadCloser: rc, size: src.size}, digester: want.Digest.Algorithm().Digester()}, nil
}

// StatBlob is [Layout.StatBlob].
func (d *DockerArchive) StatBlob(ctx context.Context, want oci.Descriptor) (bool, error) {
	if !d.plain {
		return d.layout.StatBlob(ctx, want)
	}
	src, err := d.source(ctx, want)
	if Absent(err) {
		return false, nil
	}
	if err == nil {
		if err = sizeFault(want, src.size); err != nil {
			return true, d.layout.about(want, err)
		}
	}
	return err == nil, err
}

// Referrers is [Layout.Referrers]: an archive of an engine that keeps images in
// containerd has what refers to an image, too. Any other has nothing.
func (d *DockerArchive) Referrers(ctx context.Context, sum digest.Digest) ([]oci.Descriptor, error) {
	if d.plain {
		return nil, nil
	}
	return d.layout.Referrers(ctx, sum)
}
