package buildkit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	gateway "github.com/moby/buildkit/frontend/gateway/client"
)

// PlatformError reports an image that a frontend has made for another platform
// than the one it was asked for, or for none that it names. It is found before
// the image is exported.
type PlatformError struct {
	// Platform is the one asked for.
	Platform oci.Platform
	// Made are the platforms that the frontend says to have made images for; empty
	// if the image config is what is wrong.
	Made []oci.Platform
	// Config is what the image config says; nil if it says nothing, or is missing.
	Config *oci.Platform
}

func (e *PlatformError) Error() string {
	asked := oci.FormatPlatform(e.Platform) + " was asked for"
	switch {
	case len(e.Made) > 0:
		return fmt.Sprintf("the frontend made %s, %s", platformList(e.Made), asked)
	case e.Config == nil:
		return "the image config is missing or names no platform, " + asked
	}
	return fmt.Sprintf("the image config says %s, %s", oci.FormatPlatform(*e.Config), asked)
}

func platformList(ps []oci.Platform) string {
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = oci.FormatPlatform(p)
	}
	return strings.Join(out, ", ")
}

// single takes the image for one platform out of a result that is a map of them:
// exported as it is, a map would become an index. It returns the platforms of the
// other images. The error is a [*PlatformError].
func single(res *gateway.Result, asked oci.Platform) ([]oci.Platform, error) {
	if _, mapped := res.Metadata[exptypes.ExporterPlatformsKey]; !mapped || len(res.Refs) == 0 {
		return nil, nil
	}
	list, err := exptypes.ParsePlatforms(res.Metadata)
	if err != nil {
		return nil, err
	}
	i := choose(list.Platforms, asked)
	var others []oci.Platform
	for n, p := range list.Platforms {
		if n != i {
			others = append(others, p.Platform)
		}
	}
	if i < 0 {
		return nil, &PlatformError{Platform: asked, Made: others}
	}
	return others, narrow(res, list.Platforms[i])
}

// choose prefers the platform itself to one that leaves a variant open.
func choose(list []exptypes.Platform, asked oci.Platform) int {
	exact := slices.IndexFunc(list, func(p exptypes.Platform) bool { return oci.PlatformKey(p.Platform) == oci.PlatformKey(asked) })
	if exact >= 0 {
		return exact
	}
	return slices.IndexFunc(list, func(p exptypes.Platform) bool { return !oci.PlatformsContradict(asked, p.Platform) })
}

// narrow leaves one image of a map in a result.
func narrow(res *gateway.Result, p exptypes.Platform) error {
	ref, ok := res.FindRef(p.ID)
	if !ok {
		return fmt.Errorf("the frontend made no image for %s, which it lists", p.ID)
	}
	b, err := json.Marshal(exptypes.Platforms{Platforms: []exptypes.Platform{p}})
	if err != nil {
		return err
	}
	res.AddMeta(exptypes.ExporterPlatformsKey, b)
	for id := range res.Attestations {
		if id != p.ID {
			delete(res.Attestations, id)
		}
	}
	res.SetRef(ref)
	res.Refs = nil
	return nil
}

// checkPlatform holds the config of a result that is one image to the platform
// asked for. Without a config BuildKit would write one for its own processor. The
// error is a [*PlatformError].
func checkPlatform(res *gateway.Result, asked oci.Platform) error {
	b := configOf(res)
	if b == nil {
		return &PlatformError{Platform: asked}
	}
	config, err := oci.ParseConfig(b)
	if err != nil {
		return fmt.Errorf("image config: %w", err)
	}
	if oci.IsUnknownPlatform(&config.Platform) {
		return &PlatformError{Platform: asked}
	}
	if oci.PlatformsContradict(asked, config.Platform) {
		return &PlatformError{Platform: asked, Config: &config.Platform}
	}
	return nil
}

// configOf is the image config of a result that is one image, nil if there is none.
func configOf(res *gateway.Result) []byte {
	var p *exptypes.Platform
	if list, err := exptypes.ParsePlatforms(res.Metadata); err == nil && len(list.Platforms) == 1 {
		p = &list.Platforms[0]
	}
	return exptypes.ParseKey(res.Metadata, exptypes.ExporterImageConfigKey, p)
}
