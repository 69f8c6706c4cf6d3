package registrytest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/manifold-oci/manifold/oci"
)

// Stored is a manifest that a repository holds, tagged or not.
type Stored struct {
	oci.Blob
	// Tags that name it, sorted.
	Tags []string
}

// Manifests returns every manifest that a repository holds, untagged ones too,
// sorted by digest. A registry on disk is read from its directory; for one in
// memory it is what was ever put and is still there.
func (r *Registry) Manifests(repo string) []Stored {
	r.t.Helper()
	tags := r.Tags(repo)
	var out []Stored
	for _, d := range r.revisions(repo) {
		b, ok := r.Manifest(repo, d.String())
		if !ok {
			continue
		}
		s := Stored{Blob: b}
		for tag, named := range tags {
			if named == d {
				s.Tags = append(s.Tags, tag)
			}
		}
		slices.Sort(s.Tags)
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b Stored) int { return cmp.Compare(a.Digest, b.Digest) })
	return out
}

// Summary counts the manifests of a repository by kind: "index 1 manifest 2".
// Attestations are manifests. An empty repository is "".
func (r *Registry) Summary(repo string) string {
	r.t.Helper()
	var indexes, manifests int
	for _, s := range r.Manifests(repo) {
		if oci.IsIndex(s.MediaType) {
			indexes++
		} else {
			manifests++
		}
	}
	var parts []string
	if indexes > 0 {
		parts = append(parts, fmt.Sprintf("index %d", indexes))
	}
	if manifests > 0 {
		parts = append(parts, fmt.Sprintf("manifest %d", manifests))
	}
	return strings.Join(parts, " ")
}

// Tags returns what each tag of a repository names.
func (r *Registry) Tags(repo string) map[string]digest.Digest {
	r.t.Helper()
	a := r.ask(http.MethodGet, "/v2/"+repo+"/tags/list", "", nil)
	if a.Status == http.StatusNotFound {
		return map[string]digest.Digest{}
	}
	r.want(http.StatusOK, a, "tags of "+repo)
	var list struct{ Tags []string }
	if err := json.Unmarshal(a.Body, &list); err != nil {
		r.t.Fatal(err)
	}
	out := map[string]digest.Digest{}
	for _, tag := range list.Tags {
		if b, ok := r.Manifest(repo, tag); ok {
			out[tag] = b.Digest
		}
	}
	return out
}

// Manifest reads a manifest by tag or digest; ok is false when it is absent.
func (r *Registry) Manifest(repo, reference string) (b oci.Blob, ok bool) {
	r.t.Helper()
	a := r.ask(http.MethodGet, "/v2/"+repo+"/manifests/"+reference, "", nil)
	if a.Status == http.StatusNotFound {
		return oci.Blob{}, false
	}
	r.want(http.StatusOK, a, "manifest "+reference)
	return oci.NewBlob(a.Header.Get("Content-Type"), a.Body), true
}

// HasBlob reports whether a repository has a blob.
func (r *Registry) HasBlob(repo string, d digest.Digest) bool {
	r.t.Helper()
	return r.ask(http.MethodHead, "/v2/"+repo+"/blobs/"+d.String(), "", nil).Status == http.StatusOK
}

// RemoveManifest removes a manifest behind the client's back. Registries that
// do so take its tags along.
func (r *Registry) RemoveManifest(repo string, d digest.Digest) {
	r.t.Helper()
	r.want(http.StatusAccepted, r.ask(http.MethodDelete, "/v2/"+repo+"/manifests/"+d.String(), "", nil), "removal of "+d.String())
}

// RemoveBlob removes a blob from a repository behind the client's back.
func (r *Registry) RemoveBlob(repo string, d digest.Digest) {
	r.t.Helper()
	r.want(http.StatusAccepted, r.ask(http.MethodDelete, "/v2/"+repo+"/blobs/"+d.String(), "", nil), "removal of "+d.String())
}

// revisions lists the digests of the manifests that a repository may hold.
func (r *Registry) revisions(repo string) []digest.Digest {
	r.t.Helper()
	if r.Dir == "" {
		return r.seenManifests(repo)
	}
	dir := filepath.Join(r.Dir, "docker/registry/v2/repositories", repo, "_manifests/revisions/sha256")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	var out []digest.Digest
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "link")); err == nil {
			out = append(out, digest.NewDigestFromEncoded(digest.SHA256, e.Name()))
		}
	}
	return out
}

func (r *Registry) seenManifests(repo string) []digest.Digest {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []digest.Digest
	for d := range r.seen[repo] {
		out = append(out, d)
	}
	return out
}

// Uploads lists the upload sessions of a repository that are open. Only a
// registry on disk can be asked.
func (r *Registry) Uploads(repo string) []string {
	r.t.Helper()
	if r.Dir == "" {
		r.t.Fatalf("%s: keeps no directory to look into", r.Kind)
	}
	r.Settle()
	dir := filepath.Join(r.Dir, "docker/registry/v2/repositories", repo, "_uploads")
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		// Distribution leaves hash states of a session that it has cancelled.
		if _, err := os.Stat(filepath.Join(dir, e.Name(), "startedat")); err == nil {
			out = append(out, e.Name())
		}
	}
	return out
}
