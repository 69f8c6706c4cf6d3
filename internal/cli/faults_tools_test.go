package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
)

// publisher is a program that publishes an index, and how it is called.
type publisher struct {
	name string
	// args are the command lines, run one after the other, for source and
	// target references.
	args func(w world) [][]string
}

// world is what one run of a tool has.
type world struct {
	source, target *registrytest.Registry
	home           string
	context        string // for builds
}

func (w world) from() string { return w.source.Reference("src", "1") }
func (w world) to() string   { return w.target.Reference("dst", "tag") }

func one(args ...string) [][]string { return [][]string{args} }

// ours are the verbs of manifold that publish.
func ours() []publisher {
	return []publisher{
		{"create", func(w world) [][]string {
			return one("manifold", "create", "--progress", "none", "-t", w.to(), w.from())
		}},
		{"copy", func(w world) [][]string { return one("manifold", "copy", "--progress", "none", w.from(), w.to()) }},
		{"manifest push", func(w world) [][]string {
			here := func(name string) string { return w.target.Reference("parts", name) }
			return [][]string{
				{"manifold", "manifest", "create", w.to(), here("amd"), here("arm")},
				{"manifold", "manifest", "push", w.to()},
			}
		}},
		{"build", func(w world) [][]string { return w.build() }},
		{"build --relay", func(w world) [][]string { return w.build("--relay") }},
	}
}

// build builds on two nodes, which push by themselves unless they are told not
// to.
func (w world) build(more ...string) [][]string {
	args := []string{"manifold", "build", "--progress", "plain", "--provenance=false"}
	for _, p := range []string{"linux/amd64", "linux/arm64"} {
		n, err := nodes.get(p)
		if err != nil {
			w.target.TB().Fatal(err)
		}
		args = append(args, "--node", p+"="+n.endpoint)
	}
	args = append(args, more...)
	return one(append(args, "--platform", "linux/amd64,linux/arm64", "-t", w.to(), "--push", w.context)...)
}

// peers are the field's other tools, as they come.
func peers() []publisher {
	tls := func(r *registrytest.Registry) string { return "reg=" + r.Host + ",tls=disabled" }
	return []publisher{
		{"crane", func(w world) [][]string { return one("crane", "copy", "--insecure", w.from(), w.to()) }},
		{"regctl", func(w world) [][]string {
			return one("regctl", "--host", tls(w.source), "--host", tls(w.target), "image", "copy", w.from(), w.to())
		}},
		{"oras", func(w world) [][]string {
			return one("oras", "cp", "--from-plain-http", "--to-plain-http", w.from(), w.to())
		}},
		{"skopeo", func(w world) [][]string {
			return one("skopeo", "--insecure-policy", "copy", "--all", "--src-tls-verify=false", "--dest-tls-verify=false", "docker://"+w.from(), "docker://"+w.to())
		}},
		{"imagetools", func(w world) [][]string { return one("buildx", "imagetools", "create", "-t", w.to(), w.from()) }},
	}
}

// patience is longer than any tool needs for a fault that passes.
const patience = 60 * time.Second

// run runs the tool; the last command's end counts. timeout is set when it did
// not come to one.
func (w world) run(t *testing.T, tl publisher) (said string, timeout bool, err error) {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	var out bytes.Buffer
	for _, args := range tl.args(w) {
		cmd := exec.CommandContext(ctx, args[0], args[1:]...)
		cmd.Env = w.environment()
		cmd.Stdout, cmd.Stderr = &out, &out
		cmd.WaitDelay = time.Second
		if err = cmd.Run(); err != nil {
			return out.String(), ctx.Err() != nil, err
		}
	}
	return out.String(), false, nil
}

func (w world) environment() []string {
	docker := filepath.Join(w.home, ".docker")
	return append(os.Environ(), "HOME="+w.home, "DOCKER_CONFIG="+docker, "BUILDX_CONFIG="+filepath.Join(w.home, "buildx"),
		"XDG_STATE_HOME="+filepath.Join(w.home, "state"), "XDG_CONFIG_HOME="+w.home, "XDG_RUNTIME_DIR="+w.home,
		"DOCKER_HOST=unix://"+filepath.Join(w.home, "none.sock"), "REGISTRY_AUTH_FILE="+filepath.Join(docker, "config.json"),
		"BUILDX_NO_DEFAULT_ATTESTATIONS=1")
}

// newWorld makes the content: an index at the source, its images beside the
// target, and another image under the tag that is to move.
func newWorld(t *testing.T, kind func(testing.TB, ...registrytest.Option) *registrytest.Registry, c faultCase) world {
	t.Helper()
	w := world{source: registrytest.Distribution(t), target: kind(t, c.options...), home: t.TempDir(), context: t.TempDir()}
	amd := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Pad: 100_000})
	arm := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{Pad: 100_000})
	w.source.Push("src", "1", registrytest.Index(t, registrytest.IndexOptions{}, amd, arm))
	w.target.Push("parts", "amd", amd)
	w.target.Push("parts", "arm", arm)
	w.target.Push("dst", "tag", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	for name, text := range map[string]string{
		filepath.Join(w.home, ".docker", "config.json"): registrytest.DockerConfig(w.target),
		filepath.Join(w.context, "Dockerfile"):          "FROM scratch\nCOPY file /\n",
		filepath.Join(w.context, "file"):                strings.Repeat(c.name, 5000),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// whole says what is wrong with what the tag names, empty for a whole index of
// both platforms.
func (w world) whole() string {
	root, ok := w.target.Manifest("dst", "tag")
	if !ok {
		return "no tag"
	}
	idx, err := oci.ParseIndex(root)
	if err != nil {
		return "the tag names no index"
	}
	platforms := map[string]bool{}
	for _, e := range idx.Manifests {
		child, ok := w.target.Manifest("dst", e.Digest.String())
		if !ok {
			return "a child is missing"
		}
		refs, err := oci.References(child)
		if err != nil || child.Digest != e.Digest {
			return "a child is not what its digest says"
		}
		for _, d := range refs {
			if !w.target.HasBlob("dst", d.Digest) {
				return "a blob is missing"
			}
		}
		if e.Platform != nil {
			platforms[oci.FormatPlatform(*e.Platform)] = true
		}
	}
	if !platforms["linux/amd64"] || !platforms["linux/arm64"] {
		return "a platform is missing"
	}
	return ""
}

// judge says whether a tool did what it should: empty, or what it did instead.
func (w world) judge(c faultCase, before string, err error, timeout bool) string {
	now := "no tag"
	if b, ok := w.target.Manifest("dst", "tag"); ok {
		now = b.Digest.String()
	}
	fault := w.whole()
	switch {
	case timeout:
		return "does not end"
	case err == nil && c.want == stops && c.name == "another writer takes the tag just after":
		return "does not know"
	case err == nil && fault != "":
		return "says done: " + fault
	case err == nil && c.want == stops:
		return "says done"
	case err != nil && c.want == survives:
		return "fails"
	case err != nil && now != before && c.name != "another writer takes the tag just after":
		return "fails, and the tag has moved"
	}
	return ""
}

func relativeLocation(a *registrytest.Answer) {
	if u, err := url.Parse(a.Header.Get("Location")); err == nil && u.Host != "" {
		u.Scheme, u.Host = "", ""
		a.Header.Set("Location", u.String())
	}
}

func replaceHost(location, host string) string {
	u, err := url.Parse(location)
	if err != nil {
		return location
	}
	u.Scheme, u.Host = "http", host
	return u.String()
}

// refuseIndexes answers 400 to a PUT of an index.
func refuseIndexes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && oci.IsIndex(r.Header.Get("Content-Type")) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"errors":[{"code":"MANIFEST_INVALID","message":"manifest invalid"}]}`)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// dropChild removes one child of what the tag names.
func dropChild(target *registrytest.Registry) {
	root, ok := target.Manifest("dst", "tag")
	if !ok {
		return
	}
	if idx, err := oci.ParseIndex(root); err == nil && len(idx.Manifests) > 0 {
		target.RemoveManifest("dst", idx.Manifests[0].Digest)
	}
}

// otherWriter puts another image under the tag.
func otherWriter(target *registrytest.Registry) {
	target.Push("dst", "tag", registrytest.Image(target.TB(), "linux/riscv64", registrytest.ImageOptions{}))
}
