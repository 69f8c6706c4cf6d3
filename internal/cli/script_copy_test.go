package cli_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

var _ = scriptCommands(map[string]scriptCommand{
	"cosign":   cosignTag,
	"manytags": manyTags,
	"pages":    pages,
})

// cosign REGISTRY REPOSITORY SUBJECT sig|att|sbom CONTENT: pushes a content under
// the tag by which cosign binds it to another one.
func cosignTag(k *kit, args []string) {
	if len(args) != 5 {
		k.fail("usage: cosign registry repository subject sig|att|sbom content")
	}
	tag := "sha256-" + k.content(args[2]).Digest().Encoded() + "." + args[3]
	k.registry(args[0]).Push(args[1], tag, k.content(args[4]))
}

// manytags REGISTRY REPOSITORY N: pushes one image under the tags t000, t001...
func manyTags(k *kit, args []string) {
	if len(args) != 3 {
		k.fail("usage: manytags registry repository n")
	}
	r, c := k.registry(args[0]), registrytest.Image(k, "linux/amd64", registrytest.ImageOptions{})
	for i := range k.number(args[2]) {
		tag := fmt.Sprintf("t%03d", i)
		if i == 0 {
			r.Push(args[1], tag, c)
			continue
		}
		r.PushManifest(args[1], tag, c.Root)
	}
}

// pages REGISTRY N: lists come in pages of N tags, with a Link to the next.
func pages(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: pages registry n")
	}
	n := strconv.Itoa(k.number(args[1]))
	k.registry(args[0]).Use(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/tags/list") && !r.URL.Query().Has("n") {
				q := r.URL.Query()
				q.Set("n", n)
				r.URL.RawQuery = q.Encode()
			}
			next.ServeHTTP(w, r)
		})
	})
}
