package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/moby/buildkit/client"
	mobyclient "github.com/moby/moby/client"
)

// buildx leaves out what several nodes have to put together: an image layout, a
// tar archive, an image loaded into an engine (docker/buildx#2007). Here each
// node makes its part, and the parts are joined: images by the rooms outside,
// files by this one.

// MustCombine reports whether an output of spec has to be put together from the
// parts of several platforms. Otherwise one node writes it by itself.
func (n *Nodes) MustCombine(spec *Spec) bool {
	parts := len(n.machines) > 1 && len(spec.Platforms) > 1 || spec.Overridden()
	return parts && spec.Call == nil && (len(spec.layouts()) > 0 || len(spec.files()) > 0)
}

// layouts are the outputs that hold images.
func (s *Spec) layouts() []client.ExportEntry {
	return s.ofType(client.ExporterOCI, client.ExporterDocker)
}

// files are the outputs that hold the files of images.
func (s *Spec) files() []client.ExportEntry {
	return s.ofType(client.ExporterLocal, client.ExporterTar)
}

func (s *Spec) ofType(types ...string) []client.ExportEntry {
	return slices.DeleteFunc(slices.Clone(s.Others), func(e client.ExportEntry) bool { return !slices.Contains(types, e.Type) })
}

// Alone returns a spec with the outputs that no two nodes have to make together.
func (s *Spec) Alone() *Spec {
	out := *s
	out.Others = slices.DeleteFunc(slices.Clone(s.Others), func(e client.ExportEntry) bool {
		return slices.Contains([]string{client.ExporterOCI, client.ExporterDocker, client.ExporterLocal, client.ExporterTar}, e.Type)
	})
	return &out
}

// HasLayouts reports whether an output holds images.
func (s *Spec) HasLayouts() bool { return len(s.layouts()) > 0 }

// AsImage returns a spec whose images are those of the first output that holds
// images: its attributes decide their bytes, as those of a push would.
func (s *Spec) AsImage() (*Spec, error) {
	out := *s
	if s.Push || !s.HasLayouts() {
		return &out, nil
	}
	var part Spec
	if err := part.addPush(s.layouts()[0].Attrs); err != nil {
		return nil, err
	}
	out.Image, out.IndexAnnotations = part.Image, part.IndexAnnotations
	out.IndexDescriptorAnnotations, out.DescriptorAnnotations = part.IndexDescriptorAnnotations, part.DescriptorAnnotations
	if out.Names = s.Tags; len(out.Names) == 0 {
		out.Names = part.Names
	}
	return &out, nil
}

// LayoutOutput is an output that a finished image is written to.
type LayoutOutput struct {
	*layout.Writer
	// Tags are the names that the image is to have there.
	Tags []string

	finish func(ctx context.Context) error
}

// Finish completes the output, once everything was written. An output that is
// not finished is left out.
func (o *LayoutOutput) Finish(ctx context.Context) error {
	if err := o.Commit(); err != nil {
		return err
	}
	return o.finish(ctx)
}

// OpenLayouts opens the outputs that hold images. Close closes them.
//
// Errors: *LoadError, [*layout.Error].
func (n *Nodes) OpenLayouts(ctx context.Context, spec *Spec) ([]*LayoutOutput, error) {
	var out []*LayoutOutput
	for _, e := range spec.layouts() {
		o, err := n.openLayout(ctx, spec, e)
		if err != nil {
			return nil, err
		}
		n.onClose(o.Close)
		out = append(out, o)
	}
	return out, nil
}

func (n *Nodes) openLayout(ctx context.Context, spec *Spec, e client.ExportEntry) (*LayoutOutput, error) {
	names, err := layoutNames(spec, e)
	switch {
	case err != nil:
		return nil, err
	case e.OutputDir != "":
		w, err := layout.Create(e.OutputDir)
		return &LayoutOutput{Writer: w, Tags: layoutTags(names), finish: func(context.Context) error { return nil }}, err
	case e.Output != nil && e.Type == client.ExporterDocker:
		return nil, &UsageError{Flag: "output", Value: "type=docker", Reason: "an archive of docker save holds one platform; type=oci holds them all"}
	case e.Output != nil:
		return n.archive(layoutTags(names), func(_ context.Context, f *os.File) error {
			w, err := e.Output(nil)
			if err != nil {
				return err
			}
			_, err = io.Copy(w, f)
			return errors.Join(err, w.Close())
		})
	}
	engine, err := n.storingEngine(ctx, e.Attrs["context"])
	if err != nil {
		return nil, err
	}
	return n.archive(engineNames(names), func(ctx context.Context, f *os.File) error { return load(ctx, engine, f) })
}

// archive is an output that is written to a temporary file first.
func (n *Nodes) archive(tags []string, finish func(context.Context, *os.File) error) (*LayoutOutput, error) {
	dir, err := os.MkdirTemp(n.options.TempDir, "manifold-output-*")
	if err != nil {
		return nil, err
	}
	n.onClose(func() error { return os.RemoveAll(dir) })
	path := filepath.Join(dir, "image.tar")
	w, err := layout.CreateArchive(path)
	return &LayoutOutput{Writer: w, Tags: tags, finish: func(ctx context.Context) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(finish(ctx, f), f.Close())
	}}, err
}

// layoutNames are the names that an image is to have in an output: those of
// --tag, or else those of the output itself.
func layoutNames(spec *Spec, e client.ExportEntry) ([]ref.Reference, error) {
	given := spec.Tags
	if name := e.Attrs[attrName]; len(given) == 0 && name != "" {
		given = strings.Split(name, ",")
	}
	var out []ref.Reference
	for _, s := range given {
		r, err := ref.Parse(s)
		if err != nil {
			return nil, usage("output", err)
		}
		out = append(out, r.OrLatest())
	}
	return out, nil
}

// layoutTags are the tags of an image in a layout; BuildKit's are the same.
func layoutTags(names []ref.Reference) []string {
	var out []string
	for _, r := range names {
		if !slices.Contains(out, r.Tag) {
			out = append(out, r.Tag)
		}
	}
	if len(out) == 0 {
		out = []string{"latest"}
	}
	return out
}

// engineNames are whole names. An engine takes an image without a name as well,
// if the archive lists it.
func engineNames(names []ref.Reference) []string {
	var out []string
	for _, r := range names {
		out = append(out, r.String())
	}
	if len(out) == 0 {
		out = []string{""}
	}
	return out
}

// storingEngine is the engine of a Docker context, if it can hold images of
// several platforms.
func (n *Nodes) storingEngine(ctx context.Context, name string) (mobyclient.APIClient, error) {
	api, err := n.docker.API(name)
	if err != nil {
		return nil, err
	}
	timed, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	info, err := api.Info(timed, mobyclient.InfoOptions{})
	if err != nil {
		return nil, fmt.Errorf("--load: %w", err)
	}
	for _, status := range info.Info.DriverStatus {
		if status[0] == "driver-type" && strings.HasPrefix(status[1], "io.containerd.snapshotter") {
			return api, nil
		}
	}
	return nil, &LoadError{Engine: info.Info.Name}
}

// LoadError reports an engine that cannot hold an image of several platforms.
type LoadError struct {
	// Engine is its name, most often that of its host.
	Engine string
}

func (e *LoadError) Error() string {
	return "engine " + e.Engine + ": --load: it holds one platform of an image"
}

// load gives an image to an engine and reads its answer to the end.
func load(ctx context.Context, api mobyclient.APIClient, f *os.File) error {
	// Only the reading end: the client would close the file.
	answer, err := api.ImageLoad(ctx, struct{ io.Reader }{f}, mobyclient.ImageLoadWithQuiet(true))
	if err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	said, err := io.ReadAll(io.LimitReader(answer, 1<<20))
	if err := errors.Join(err, answer.Close()); err != nil {
		return fmt.Errorf("--load: %w", err)
	}
	if strings.Contains(string(said), `"errorDetail"`) {
		return fmt.Errorf("--load: %s", strings.TrimSpace(string(said)))
	}
	return nil
}

// WriteFiles writes the outputs that hold files: of several platforms each has
// a folder of its own, linux_arm64, unless platform-split=false joins them. An
// archive appears when all its parts are there. Of the images returned, who built
// them and what BuildKit answered is known.
func (n *Nodes) WriteFiles(ctx context.Context, spec *Spec, w progress.Writer, o build.Options) ([]build.Image, error) {
	entries := spec.files()
	if len(entries) == 0 {
		return nil, nil
	}
	tars, err := n.newTars(entries)
	if err != nil {
		return nil, err
	}
	nodes := n.Build(spec, BuildOptions{Progress: w})
	for _, node := range nodes {
		if p, ok := node.(*port); ok {
			p.files = tars
		}
	}
	images, err := build.Run(ctx, nodes, o)
	if err != nil {
		return nil, err
	}
	return images, tars.join(spec)
}

// write builds the files of each platform.
func (p *port) write(ctx context.Context, platforms []oci.Platform, keepGoing bool) ([]build.Image, error) {
	var targets []target
	for _, pl := range platforms {
		targets = append(targets, target{platform: pl, options: p.files.options(p.spec, pl)})
	}
	results, err := p.solve(ctx, targets, filesLabel, keepGoing)
	var images []build.Image
	for _, r := range results {
		images = append(images, p.image(r))
	}
	return images, err
}

// filesLabel stands behind the platform in front of the steps of this pass.
const filesLabel = " files"

// folder is what BuildKit calls the part of a platform.
func folder(p oci.Platform) string {
	return strings.ReplaceAll(platforms.FormatAll(p), "/", "_")
}

func apart(e client.ExportEntry, spec *Spec) bool {
	v, given := e.Attrs["platform-split"]
	return len(spec.Platforms) > 1 && (!given || isTrue(v))
}
