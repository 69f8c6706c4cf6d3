package cli_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

var _ = scriptCommands(map[string]scriptCommand{
	"tarball":    tarball,
	"saved":      saved,
	"entries":    entries,
	"read":       read,
	"replace":    replaceIn,
	"descriptor": descriptor,
})

// tarball FILE DIR: a tar of what is in a folder.
func tarball(k *kit, args []string) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	k.ts.Check(w.AddFS(os.DirFS(k.ts.MkAbs(args[1]))))
	k.ts.Check(w.Close())
	k.ts.Check(os.WriteFile(k.ts.MkAbs(args[0]), out.Bytes(), 0o644))
}

// saved FILE NAME IMAGE: an archive as docker save writes it, of an image that
// was made with "docker". $IMAGE_PUSHED is the digest that docker push gives.
func saved(k *kit, args []string) {
	c := k.content(args[2])
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	add := func(name string, b []byte) {
		k.ts.Check(w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(b))}))
		_, err := w.Write(b)
		k.ts.Check(err)
	}
	layers := []string{}
	for i, l := range c.Blobs[1:] {
		z, err := gzip.NewReader(bytes.NewReader(l.Bytes))
		k.ts.Check(err)
		plain, err := io.ReadAll(z)
		k.ts.Check(err)
		layers = append(layers, fmt.Sprintf("%d/layer.tar", i))
		add(layers[i], plain)
	}
	add("config.json", c.Blobs[0].Bytes)
	b, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{args[1]}, "Layers": layers}})
	k.ts.Check(err)
	add("manifest.json", b)
	k.ts.Check(w.Close())
	k.ts.Check(os.WriteFile(k.ts.MkAbs(args[0]), out.Bytes(), 0o644))
	k.ts.Setenv(args[2]+"_PUSHED", digest.FromString(pushedManifest(c)).String())
}

// pushedManifest is the manifest that an engine writes.
func pushedManifest(c registrytest.Content) string {
	member := func(d oci.Descriptor, indent string) string {
		return fmt.Sprintf("{\n%[1]s   \"mediaType\": %[2]q,\n%[1]s   \"size\": %[3]d,\n%[1]s   \"digest\": %[4]q\n%[1]s}", indent, d.MediaType, d.Size, d.Digest)
	}
	var layers []string
	for _, l := range c.Blobs[1:] {
		layers = append(layers, "      "+member(l.Descriptor, "      "))
	}
	return fmt.Sprintf("{\n   \"schemaVersion\": 2,\n   \"mediaType\": %q,\n   \"config\": %s,\n   \"layers\": [\n%s\n   ]\n}",
		oci.MediaTypeDockerManifest, member(c.Blobs[0].Descriptor, "   "), strings.Join(layers, ",\n"))
}

// entries NAME REPOSITORY:TAG: prints the entries of an index, a line "PLATFORM
// DIGEST [attests DIGEST]" each, and its annotations, a line "KEY=VALUE" each.
func entries(k *kit, args []string) {
	repo, tag := repoTag(args[1])
	b, ok := k.registry(args[0]).Manifest(repo, tag)
	if !ok {
		k.fail("%s: no such tag", args[1])
	}
	idx, err := oci.ParseIndex(b)
	k.ts.Check(err)
	for _, e := range idx.Manifests {
		line := "artifact"
		if e.Platform != nil {
			line = oci.FormatPlatform(*e.Platform)
		}
		line += " " + e.Digest.String()
		if of, attests := oci.IsAttestation(e.Descriptor); attests {
			line += " attests " + of.String()
		} else {
			for key, v := range e.Annotations {
				line += " " + key + "=" + v
			}
		}
		fmt.Fprintln(k.ts.Stdout(), line)
	}
	for key, v := range idx.Annotations {
		fmt.Fprintf(k.ts.Stdout(), "%s=%s\n", key, v)
	}
	fmt.Fprintln(k.ts.Stdout(), idx.MediaType)
}

// read VAR: sets $VAR to what the last command printed.
func read(k *kit, args []string) {
	k.ts.Setenv(args[0], strings.TrimSpace(k.ts.ReadFile("stdout")))
}

// replace FILE...: variables in files get their values.
func replaceIn(k *kit, args []string) {
	for _, name := range args {
		text := os.Expand(k.ts.ReadFile(name), k.ts.Getenv)
		k.ts.Check(os.WriteFile(k.ts.MkAbs(name), []byte(text), 0o644))
	}
}

// descriptor FILE CONTENT [PLATFORM]: the JSON of a descriptor, with space
// around it.
func descriptor(k *kit, args []string) {
	d := k.content(args[1]).Root.Descriptor
	if len(args) > 2 {
		p, err := oci.ParsePlatform(args[2])
		k.ts.Check(err)
		d.Platform = &p
	}
	b, err := json.MarshalIndent(d, "", "  ")
	k.ts.Check(err)
	k.ts.Check(os.MkdirAll(filepath.Dir(k.ts.MkAbs(args[0])), 0o755))
	k.ts.Check(os.WriteFile(k.ts.MkAbs(args[0]), append(b, "\n\n"...), 0o644))
}
