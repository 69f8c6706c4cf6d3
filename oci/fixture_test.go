package oci_test

import (
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/oci"
)

// Digests of three things that need not exist.
var (
	digestA = string(oci.NewBlob("", []byte("a")).Digest)
	digestB = string(oci.NewBlob("", []byte("b")).Digest)
)

// entry writes the JSON of an index entry for an OCI manifest.
func entry(digest, more string) string {
	return fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":7%s}`, oci.MediaTypeManifest, digest, more)
}

func index(entries ...string) []byte {
	return []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, oci.MediaTypeIndex, strings.Join(entries, ",")))
}

func manifest(layers ...string) []byte {
	return []byte(fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":3},"layers":[%s]}`,
		oci.MediaTypeManifest, oci.MediaTypeConfig, digestA, strings.Join(layers, ",")))
}
