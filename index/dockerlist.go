package index

import (
	"encoding/json"

	"github.com/manifold-oci/manifold/oci"
)

// dockerDocument and what it holds have the members, in the order, that Docker's
// CLI writes a list with (docker/distribution, manifest/manifestlist).
type dockerDocument struct {
	SchemaVersion int           `json:"schemaVersion"`
	MediaType     string        `json:"mediaType"`
	Manifests     []dockerEntry `json:"manifests"`
}

type dockerEntry struct {
	MediaType   string            `json:"mediaType,omitempty"`
	Size        int64             `json:"size,omitempty"`
	Digest      string            `json:"digest,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Platform    dockerPlatform    `json:"platform"`
}

type dockerPlatform struct {
	Architecture string   `json:"architecture"`
	OS           string   `json:"os"`
	OSVersion    string   `json:"os.version,omitempty"`
	OSFeatures   []string `json:"os.features,omitempty"`
	Variant      string   `json:"variant,omitempty"`
}

// DockerList makes the index that "docker manifest push" makes of the same
// entries, byte for byte: an indent of three, its order of members, a media type
// that follows the first entry (an OCI manifest makes an OCI index, anything
// else a Docker list), and nothing checked about platforms. An entry without a
// platform gets an empty one.
//
// Of annotations, Docker keeps none; those of the entries given here are
// written, and then the result is an OCI index, as a Docker list has no place
// for them. Give entries without annotations to get Docker's digest. Errors:
// [*EntryError], [*SizeError], [ErrEmpty].
func DockerList(entries []oci.Descriptor) (oci.Blob, error) {
	if len(entries) == 0 {
		return oci.Blob{}, ErrEmpty
	}
	doc := dockerDocument{SchemaVersion: 2, MediaType: dockerListType(entries)}
	for _, d := range entries {
		if reason := descriptorFault(d); reason != "" {
			return oci.Blob{}, &EntryError{Image: Origin{Digest: d.Digest}, Reason: reason}
		}
		doc.Manifests = append(doc.Manifests, newDockerEntry(d))
	}
	b, err := json.MarshalIndent(doc, "", "   ")
	if err != nil {
		return oci.Blob{}, err
	}
	if len(b) > oci.MaxManifestSize {
		return oci.Blob{}, &SizeError{Size: len(b), Limit: oci.MaxManifestSize}
	}
	blob := oci.NewBlob(doc.MediaType, b)
	_, err = oci.ParseIndex(blob)
	return blob, err
}

func newDockerEntry(d oci.Descriptor) dockerEntry {
	e := dockerEntry{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest.String(), Annotations: d.Annotations}
	if p := d.Platform; p != nil {
		e.Platform = dockerPlatform{
			Architecture: p.Architecture, OS: p.OS, OSVersion: p.OSVersion, OSFeatures: p.OSFeatures, Variant: p.Variant,
		}
	}
	return e
}

func dockerListType(entries []oci.Descriptor) string {
	for _, d := range entries {
		if len(d.Annotations) > 0 {
			return oci.MediaTypeIndex
		}
	}
	if entries[0].MediaType == oci.MediaTypeManifest {
		return oci.MediaTypeIndex
	}
	return oci.MediaTypeDockerList
}
