package buildkit

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/moby/sys/atomicwriter"
	"github.com/opencontainers/go-digest"
)

// Keys of the metadata file that are no exporter's.
const (
	keyBuildRef   = "buildx.build.ref"
	keyProvenance = "buildx.build.provenance"
	keyWarnings   = "buildx.build.warnings"
	keyName       = "image.name"
	keyPlatforms  = "manifold.platforms"
)

// Published is what was published, for the metadata file.
type Published struct {
	// Index is what the tags point to, with Spec.IndexDescriptorAnnotations if
	// there are any; empty if files were written only. Its digest is the file's containerimage.digest, and the id
	// of [WriteIIDFile] and -q.
	Index oci.Descriptor
	// Names as the user gave them.
	Names []string
	// Platforms in the order of the index.
	Platforms []PublishedPlatform
	// Warnings of the build, to be recorded; none by default, as in buildx.
	Warnings []client.VertexWarning
}

// PublishedPlatform is one image of the index.
type PublishedPlatform struct {
	Platform oci.Platform
	// Image is the manifest, Config its config's digest.
	Image  oci.Descriptor
	Config digest.Digest
	// Node names who built it.
	Node string
	// Attestation is the digest of its attestation manifest, empty for none.
	Attestation digest.Digest
	// Response is what buildx returned for this platform's target.
	Response map[string]string
}

// PublishedPlatforms takes what the metadata file needs out of build results.
func PublishedPlatforms(images []build.Image) []PublishedPlatform {
	out := make([]PublishedPlatform, len(images))
	for i, image := range images {
		out[i] = PublishedPlatform{
			Platform: image.Platform, Image: image.Manifest.Descriptor, Config: image.Config,
			Node: image.Node, Response: image.Response,
		}
		if len(image.Attestations) > 0 { // BuildKit makes one for all statements
			out[i].Attestation = image.Attestations[0].Digest
		}
	}
	return out
}

// platformEntry is one value of manifold.platforms, its keys sorted.
type platformEntry struct {
	Attestation digest.Digest `json:"attestation,omitempty"`
	Config      digest.Digest `json:"config,omitempty"`
	Digest      digest.Digest `json:"digest"`
	Node        string        `json:"node,omitempty"`
	Size        int64         `json:"size"`
}

// Metadata makes the content of the metadata file. It has buildx's keys for
// what one node would have built alone (containerimage.descriptor and .digest,
// image.name, buildx.build.ref, buildx.build.provenance, and
// containerimage.config.digest for one platform without attestation) and
// manifold.platforms, which says per platform what was built where.
//
// With several platforms, a key that differs between them gets the platform
// behind it, "buildx.build.ref/linux/arm64"; buildx.build.ref alone is then the
// first platform's.
func Metadata(p Published) map[string]any {
	flat := map[string]string{}
	for _, one := range p.Platforms {
		mergeResponse(flat, one, p.Platforms)
	}
	out := decodeResponse(flat)
	addWarnings(out, p.Warnings)
	if p.Index.Digest == "" {
		return out
	}
	out[exptypes.ExporterImageDigestKey] = p.Index.Digest.String()
	out[exptypes.ExporterImageDescriptorKey] = p.Index
	if len(p.Names) > 0 {
		out[keyName] = strings.Join(p.Names, ",")
	}
	if len(p.Platforms) == 1 && p.Platforms[0].Attestation == "" && p.Platforms[0].Config != "" {
		out[exptypes.ExporterImageConfigDigestKey] = p.Platforms[0].Config.String()
	}
	entries := map[string]platformEntry{}
	for _, one := range p.Platforms {
		entries[oci.FormatPlatform(one.Platform)] = platformEntry{
			Attestation: one.Attestation, Config: one.Config, Digest: one.Image.Digest, Node: one.Node, Size: one.Image.Size,
		}
	}
	out[keyPlatforms] = entries
	return out
}

// mergeResponse adds one platform's keys. Those about a single image are left
// out: what was published is an index.
func mergeResponse(flat map[string]string, one PublishedPlatform, all []PublishedPlatform) {
	for k, v := range one.Response {
		switch {
		case strings.HasPrefix(k, "containerimage.") || k == keyName:
		case len(all) == 1 || strings.HasPrefix(k, keyProvenance+"/") || k != keyProvenance && sameInAll(k, v, all):
			flat[k] = v
		default:
			flat[k+"/"+oci.FormatPlatform(one.Platform)] = v
		}
	}
	if ref, ok := all[0].Response[keyBuildRef]; ok {
		flat[keyBuildRef] = ref
	}
}

func sameInAll(key, value string, all []PublishedPlatform) bool {
	return !slices.ContainsFunc(all, func(p PublishedPlatform) bool {
		v, ok := p.Response[key]
		return !ok || v != value
	})
}

// decodeResponse turns an exporter's response into JSON values as buildx does:
// what is base64 of a JSON object or list becomes that, the rest stays text.
func decodeResponse(resp map[string]string) map[string]any {
	out := make(map[string]any, len(resp))
	for k, v := range resp {
		out[k] = v
		if raw, ok := structured(k, v); ok {
			out[k] = raw
		}
	}
	return out
}

// PlainMetadata is the metadata of a build that was buildx's alone.
func PlainMetadata(resp map[string]string) map[string]any { return decodeResponse(resp) }

func structured(key, value string) (json.RawMessage, bool) {
	text := []byte(value) // the answer of --call comes unencoded
	if key != "result.json" {
		var err error
		if text, err = base64.StdEncoding.DecodeString(value); err != nil {
			return nil, false
		}
	}
	var object map[string]any
	var list []map[string]any
	isObject := json.Unmarshal(text, &object) == nil && len(object) > 0
	isList := json.Unmarshal(text, &list) == nil && len(list) > 0
	return text, isObject || isList
}

// AddWarnings adds the warnings of a build to metadata, if spec asks for them.
func AddWarnings(dt map[string]any, spec *Spec, p *Progress) { addWarnings(dt, spec.warnings(p)) }

func addWarnings(dt map[string]any, warnings []client.VertexWarning) {
	if len(warnings) > 0 {
		dt[keyWarnings] = warnings
	}
}

// imageID is buildx's choice: the config's digest where there is one, else that
// of the manifest or index.
func imageID(resp map[string]string) string {
	if v, ok := resp[exptypes.ExporterImageConfigDigestKey]; ok {
		return v
	}
	return resp[exptypes.ExporterImageDigestKey]
}

// WriteMetadata writes a metadata file, whole or not at all: indented by two
// spaces, keys sorted, no newline at the end. Call it after publishing only, and
// [RemoveResult] before where a failure may not leave the file of an earlier run.
// It does nothing without a path.
func WriteMetadata(path string, dt map[string]any) error {
	if path == "" {
		return nil
	}
	b, err := json.MarshalIndent(dt, "", "  ")
	if err != nil {
		return fmt.Errorf("metadata: %w", err)
	}
	return writeFile(path, b)
}

// RemoveResult removes the image id or metadata file of an earlier run, so that
// none is there after a failure to be taken for this run's. It does nothing
// without a path, and leaves pipes and devices alone.
func RemoveResult(path string) error {
	if path == "" || isSpecial(path) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("result of an earlier run: %w", err)
	}
	return nil
}

// WriteIIDFile writes an image id without a newline, whole or not at all. It
// does nothing without a path. After publishing, the id is the digest of the
// index, since that is what every tag names.
func WriteIIDFile(path, id string) error {
	if path == "" {
		return nil
	}
	return writeFile(path, []byte(id))
}

func writeFile(path string, b []byte) error {
	if isSpecial(path) {
		return os.WriteFile(path, b, 0o644)
	}
	return atomicwriter.WriteFile(path, b, 0o644)
}

// isSpecial reports a pipe or device, which can be written to but not replaced.
func isSpecial(path string) bool {
	st, err := os.Stat(path)
	return err == nil && !st.Mode().IsRegular() && !st.IsDir()
}
