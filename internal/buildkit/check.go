package buildkit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"

	buildx "github.com/docker/buildx/build"
	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/internal/binarycheck"
	"github.com/manifold-oci/manifold/oci"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// checker looks at each image on its node, before it is exported: whether it is
// for its platform, and, when it is built, at its binaries. Nothing comes to the
// client for it; a node that fetches the layers of a base image only when they are
// used fetches them now if binaries are looked at.
type checker struct {
	port  *port
	notes *outcomes
	// label stands behind the platform in the names of targets.
	label    string
	binaries bool
}

// evaluate is called by buildx with the result of one target.
func (c checker) evaluate(ctx context.Context, name string, _ gateway.Client, res *gateway.Result, o buildx.Options) error {
	if len(o.Platforms) != 1 || name != targetName(o.Platforms[0], c.label) {
		return evaluateAll(ctx, res)
	}
	p := o.Platforms[0]
	if c.port.files == nil {
		if err := c.oneImage(res, p); err != nil {
			c.notes.refuse(name, err)
			return err
		}
	}
	if !c.binaries {
		return nil
	}
	return c.look(ctx, name, res, p)
}

// oneImage makes sure that what is exported is one image, for its platform.
func (c checker) oneImage(res *gateway.Result, p oci.Platform) error {
	others, err := single(res, p)
	if err != nil {
		return err
	}
	if len(others) > 0 && c.label == "" {
		c.port.nodes.options.Report.Warn(oci.FormatPlatform(p), "the frontend made "+platformList(others)+" too, not used")
	}
	return checkPlatform(res, p)
}

// look checks the binaries as soon as the image is built.
func (c checker) look(ctx context.Context, name string, res *gateway.Result, p oci.Platform) error {
	ref, err := res.SingleRef()
	if err != nil || ref == nil {
		return nil // an image without files
	}
	built := make(chan error, 1)
	go func() { built <- ref.Evaluate(ctx) }()
	img, err := imageOf(res, p)
	if err == nil {
		err = binarycheck.Check(ctx, img, imageFiles{ref})
	}
	if err := <-built; err != nil {
		return err
	}
	if err == nil || context.Cause(ctx) != nil {
		return context.Cause(ctx)
	}
	if mismatch(err) {
		c.notes.refuse(name, err)
		return err
	}
	c.port.nodes.options.Report.Warn(oci.FormatPlatform(p), fmt.Sprintf("the binaries were not looked at: %v", err))
	return nil
}

// evaluateAll builds the context of another target before that one is: now its own
// secrets are at hand.
func evaluateAll(ctx context.Context, res *gateway.Result) error {
	return res.EachRef(func(ref gateway.Reference) error {
		if ref == nil {
			return nil
		}
		return ref.Evaluate(ctx)
	})
}

func mismatch(err error) bool {
	var m *binarycheck.MismatchError
	return errors.As(err, &m)
}

// imageOf reads how the image is started from its config.
func imageOf(res *gateway.Result, p oci.Platform) (binarycheck.Image, error) {
	var config ocispec.Image
	if err := json.Unmarshal(configOf(res), &config); err != nil {
		return binarycheck.Image{}, fmt.Errorf("image config: %w", err)
	}
	return binarycheck.Image{
		Platform: p, Entrypoint: config.Config.Entrypoint, Cmd: config.Config.Cmd,
		Env: config.Config.Env, WorkingDir: config.Config.WorkingDir,
	}, nil
}

// imageFiles is the file system of a result on its node.
type imageFiles struct{ gateway.Reference }

func (r imageFiles) Head(ctx context.Context, name string, n int) ([]byte, error) {
	return r.ReadFile(ctx, gateway.ReadRequest{Filename: name, Range: &gateway.FileRange{Length: n}})
}

func (r imageFiles) List(ctx context.Context, dir string) ([]binarycheck.File, error) {
	list, err := r.ReadDir(ctx, gateway.ReadDirRequest{Path: dir})
	if err != nil {
		return nil, err
	}
	var out []binarycheck.File
	for _, s := range list {
		mode := fs.FileMode(s.Mode)
		windows := path.Ext(s.Path) == ".exe"
		out = append(out, binarycheck.File{
			Name: path.Base(s.Path), Program: mode.IsRegular() && (mode&0o111 != 0 || windows), Size: s.Size, Changed: s.ModTime,
		})
	}
	return out, nil
}
