// Command frontend is a BuildKit frontend that answers in a shape of the caller's
// choice, named by the build argument SHAPE:
//
//	image     one image for the platform asked for
//	scratch   the same without any file
//	other     its config says s390x
//	noref     neither files nor a config
//	noconfig  files without a config
//	map       a map of platforms that holds the one asked for
//	othermap  a map of platforms that holds s390x alone
//	several   a map of amd64, arm64 and s390x
//	lyingmap  a map that holds the platform asked for, with the config of s390x
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/containerd/platforms"
	"github.com/moby/buildkit/client/llb"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/moby/buildkit/frontend/gateway/client"
	"github.com/moby/buildkit/frontend/gateway/grpcclient"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func main() {
	if err := grpcclient.RunFromEnvironment(context.Background(), build); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func build(ctx context.Context, c client.Client) (*client.Result, error) {
	asked, err := platforms.Parse(c.BuildOpts().Opts["platform"])
	if err != nil {
		return nil, err
	}
	s390x := ocispec.Platform{OS: "linux", Architecture: "s390x"}
	switch shape := c.BuildOpts().Opts["build-arg:SHAPE"]; shape {
	case "image":
		return image(ctx, c, asked)
	case "scratch":
		return configured(client.NewResult(), exptypes.ExporterImageConfigKey, asked)
	case "other":
		return image(ctx, c, s390x)
	case "noref":
		return client.NewResult(), nil
	case "noconfig":
		return files(ctx, c, asked)
	case "map":
		return several(ctx, c, entry{asked, asked})
	case "othermap":
		return several(ctx, c, entry{s390x, s390x})
	case "lyingmap":
		return several(ctx, c, entry{asked, s390x})
	case "several":
		amd, arm := ocispec.Platform{OS: "linux", Architecture: "amd64"}, ocispec.Platform{OS: "linux", Architecture: "arm64"}
		return several(ctx, c, entry{amd, amd}, entry{arm, arm}, entry{s390x, s390x})
	default:
		return nil, fmt.Errorf("unknown shape %q", shape)
	}
}

func files(ctx context.Context, c client.Client, p ocispec.Platform) (*client.Result, error) {
	def, err := llb.Scratch().File(llb.Mkfile("/arch", 0o644, []byte(p.Architecture))).Marshal(ctx)
	if err != nil {
		return nil, err
	}
	return c.Solve(ctx, client.SolveRequest{Definition: def.ToPB()})
}

func image(ctx context.Context, c client.Client, p ocispec.Platform) (*client.Result, error) {
	res, err := files(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return configured(res, exptypes.ExporterImageConfigKey, p)
}

func configured(res *client.Result, key string, p ocispec.Platform) (*client.Result, error) {
	b, err := json.Marshal(ocispec.Image{Platform: p, RootFS: ocispec.RootFS{Type: "layers"}})
	if err == nil {
		res.AddMeta(key, b)
	}
	return res, err
}

// entry is what a map calls an image, and what the image says of itself.
type entry struct{ label, config ocispec.Platform }

func several(ctx context.Context, c client.Client, entries ...entry) (*client.Result, error) {
	out := client.NewResult()
	var list exptypes.Platforms
	for _, e := range entries {
		res, err := files(ctx, c, e.label)
		if err != nil {
			return nil, err
		}
		ref, err := res.SingleRef()
		if err != nil {
			return nil, err
		}
		id := platforms.Format(e.label)
		out.AddRef(id, ref)
		if _, err := configured(out, exptypes.ExporterImageConfigKey+"/"+id, e.config); err != nil {
			return nil, err
		}
		list.Platforms = append(list.Platforms, exptypes.Platform{ID: id, Platform: e.label})
	}
	b, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	out.AddMeta(exptypes.ExporterPlatformsKey, b)
	return out, nil
}
