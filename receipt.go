package manifold

import (
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// Receipt is what a publish did, one JSON document for every verb, on failure
// too: then Tags tell how far it came.
type Receipt struct {
	Verb string `json:"verb"`
	// Digest, MediaType and Size are those of the index.
	Digest    digest.Digest `json:"digest"`
	MediaType string        `json:"mediaType"`
	Size      int64         `json:"size"`
	// Unchanged is set when everything was there and every tag was right.
	Unchanged bool              `json:"unchanged,omitempty"`
	Platforms []PlatformReceipt `json:"platforms"`
	Tags      []TagReceipt      `json:"tags"`
	Blobs     BlobReceipt       `json:"blobs"`
	// Written are the manifests that were put by digest, "repository@digest".
	Written []string `json:"written,omitempty"`
	// PutBack are children that a registry dropped when the tag moved and that
	// were sent again.
	PutBack []digest.Digest `json:"putBack,omitempty"`
	// Leftovers are manifests that nodes pushed and the index does not hold.
	Leftovers []string `json:"leftovers,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	// Requests counts HTTP requests per host.
	Requests map[string]int `json:"requests,omitempty"`
}

// PlatformReceipt is one image of the index.
type PlatformReceipt struct {
	Platform string `json:"platform"`
	// Digest and Size are those of the image manifest.
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	Config digest.Digest `json:"config"`
	// ContentSize is config and layers together, in bytes.
	ContentSize  int64           `json:"contentSize"`
	Attestations []digest.Digest `json:"attestations,omitempty"`
	// Source is the reference it came from, Node where it was built.
	Source string `json:"source,omitempty"`
	Node   string `json:"node,omitempty"`
	// Seconds that the build took.
	Seconds float64 `json:"seconds,omitempty"`
}

// TagReceipt is one tag.
type TagReceipt struct {
	Reference string        `json:"reference"`
	Digest    digest.Digest `json:"digest"`
	Previous  digest.Digest `json:"previous,omitempty"`
	// Fate is one of those of package apply, or "unchanged" when the tag named
	// the index already.
	Fate  string        `json:"fate"`
	Found digest.Digest `json:"found,omitempty"`
}

// BlobReceipt counts blobs over all targets; those that BuildKit nodes pushed
// are not among them.
type BlobReceipt struct {
	Uploaded int   `json:"uploaded"`
	Mounted  int   `json:"mounted"`
	Present  int   `json:"present"`
	Bytes    int64 `json:"bytes"`
}

func receipt(verb string, c publish.Content, p plan.Plan, targets []ref.Reference, res apply.Result, stats registry.Stats) Receipt {
	r := Receipt{
		Verb: verb, Digest: c.Root.Digest, MediaType: c.Root.MediaType, Size: c.Root.Size,
		Unchanged: len(p.Steps) == 0, Platforms: platformReceipts(c), Tags: tagReceipts(c.Root.Digest, targets, res),
		Blobs:   BlobReceipt{Uploaded: res.Uploaded, Mounted: res.Mounted, Present: res.Present, Bytes: res.UploadedBytes},
		PutBack: res.PutBack, Warnings: p.Warnings, Requests: map[string]int{},
	}
	for _, w := range res.Written {
		r.Written = append(r.Written, w.Repository.WithDigest(w.Digest).String())
	}
	for host, n := range stats.Requests() {
		r.Requests[host] = n
	}
	return r
}

// platformReceipts lists the images of the root in its order.
func platformReceipts(c publish.Content) []PlatformReceipt {
	idx, err := oci.ParseIndex(c.Root)
	if err != nil {
		return nil
	}
	var out []PlatformReceipt
	at := map[digest.Digest]int{}
	for _, e := range idx.Manifests {
		if _, attests := oci.IsAttestation(e.Descriptor); attests || e.Platform == nil || !oci.IsImageManifest(e.MediaType) {
			continue
		}
		at[e.Digest] = len(out)
		p := PlatformReceipt{Platform: oci.FormatPlatform(*e.Platform), Digest: e.Digest, Size: e.Size}
		p.Config, p.ContentSize = contentOf(c, e.Digest)
		out = append(out, p)
	}
	for _, e := range idx.Manifests {
		subject, attests := oci.IsAttestation(e.Descriptor)
		if i, ok := at[subject]; ok && attests {
			out[i].Attestations = append(out[i].Attestations, e.Digest)
		}
	}
	return out
}

func contentOf(c publish.Content, d digest.Digest) (config digest.Digest, size int64) {
	for _, m := range c.Manifests {
		if m.Digest != d {
			continue
		}
		v, err := oci.ParseManifest(m.Blob)
		if err != nil {
			return "", 0
		}
		size = v.Config.Size
		for _, l := range v.Layers {
			size += l.Size
		}
		return v.Config.Digest, size
	}
	return "", 0
}

// tagReceipts lists every tag asked for, also those that needed no move.
func tagReceipts(root digest.Digest, targets []ref.Reference, res apply.Result) []TagReceipt {
	fates := map[ref.Reference]apply.TagResult{}
	for _, t := range res.Tags {
		fates[t.Reference] = t
	}
	var out []TagReceipt
	seen := map[ref.Reference]bool{}
	for _, r := range targets {
		name := r.WithTag(r.Tag)
		if r.Tag == "" || seen[name] {
			continue
		}
		seen[name] = true
		t, ok := fates[name]
		if !ok {
			out = append(out, TagReceipt{Reference: name.String(), Digest: root, Previous: root, Fate: "unchanged"})
			continue
		}
		out = append(out, TagReceipt{Reference: name.String(), Digest: t.Digest, Previous: t.Previous, Fate: string(t.Fate), Found: t.Found})
	}
	return out
}

// built adds what only the build knows.
func (r *Receipt) built(d digest.Digest, node string, took time.Duration) {
	for i := range r.Platforms {
		if r.Platforms[i].Digest == d {
			r.Platforms[i].Node, r.Platforms[i].Seconds = node, took.Seconds()
		}
	}
}

// relayed counts what passed through the client while it was built.
func (b *BlobReceipt) relayed(images []build.Image) {
	seen := map[digest.Digest]bool{}
	for _, img := range images {
		for _, r := range img.Relayed {
			switch {
			case seen[r.Digest]:
			case r.Present:
				b.Present++
			default:
				b.Uploaded++
				b.Bytes += r.Size
			}
			seen[r.Digest] = true
		}
	}
}

// source adds which reference an image came from.
func (r *Receipt) source(d digest.Digest, name string) {
	for i := range r.Platforms {
		if r.Platforms[i].Digest == d && r.Platforms[i].Source == "" {
			r.Platforms[i].Source = name
		}
	}
}
