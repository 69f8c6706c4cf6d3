package manifold

import (
	"time"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
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
	// Missing are platforms that were not required and are left out.
	Missing []string `json:"missing,omitempty"`
	// PutBack are children that a registry dropped when the tag moved and that
	// were sent again.
	PutBack []digest.Digest `json:"putBack,omitempty"`
	// Removed are manifests of Written that a publish that failed has taken away
	// again, Left those that it has left there.
	Removed []string      `json:"removed,omitempty"`
	Left    []LeftReceipt `json:"left,omitempty"`
	// Leftovers are manifests that nodes pushed and that neither the index nor a
	// tag of the targets holds. Other tags are not looked at.
	Leftovers []string `json:"leftovers,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	// Requests counts HTTP requests per host, Bytes those of their bodies. What
	// nodes send by themselves is not among them.
	Requests map[string]int         `json:"requests,omitempty"`
	Bytes    map[string]HostReceipt `json:"bytes,omitempty"`
	// Started is when the publish began, after a build if there was one, and
	// Seconds how long it took.
	Started time.Time `json:"started,omitzero"`
	Seconds float64   `json:"seconds"`
	// Error is what it failed with.
	Error string `json:"error,omitempty"`
}

// LeftReceipt is a manifest that a publish that failed has left behind.
type LeftReceipt struct {
	// Reference is "repository@digest".
	Reference string `json:"reference"`
	Reason    string `json:"reason"`
}

// HostReceipt counts bytes of bodies to and from one host.
type HostReceipt struct {
	Sent     int64 `json:"sent"`
	Received int64 `json:"received"`
}

// PlatformReceipt is one image of the index.
type PlatformReceipt struct {
	Platform string `json:"platform"`
	// Digest and Size are those of the image manifest.
	Digest digest.Digest `json:"digest"`
	Size   int64         `json:"size"`
	// Config and ContentSize, which is config and layers together, in bytes, are
	// left out where nobody has looked below the index: a tag does not.
	Config       digest.Digest   `json:"config,omitempty"`
	ContentSize  int64           `json:"contentSize,omitempty"`
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
	// Fate is one of those of package apply; "unchanged" also for a tag that was
	// right when the plan was made.
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

// receipt says what came of a plan.
func receipt(p plan.Plan, res apply.Result, stats registry.Stats, started time.Time) Receipt {
	r := Receipt{
		Verb: p.Verb, Digest: p.Root.Digest, MediaType: p.Root.MediaType, Size: p.Root.Size,
		Unchanged: len(p.Steps) == 0 || res.Nothing(), Platforms: platformReceipts(p), Tags: tagReceipts(p, res),
		Blobs:   BlobReceipt{Uploaded: res.Uploaded, Mounted: res.Mounted, Present: res.Present, Bytes: res.UploadedBytes},
		PutBack: res.PutBack, Warnings: p.Warnings, Requests: stats.Requests(), Bytes: map[string]HostReceipt{},
		Started: started.UTC(), Seconds: time.Since(started).Seconds(),
	}
	r.Written, r.Removed = names(res.Written), names(res.Removed)
	r.Left = left(p, res)
	sent, received := stats.Bytes()
	for host := range r.Requests {
		r.Bytes[host] = HostReceipt{Sent: sent[host], Received: received[host]}
	}
	return r
}

// failed adds the error, if there was one.
func (r Receipt) failed(err error) Receipt {
	if err != nil {
		r.Error, r.Unchanged = redact.Text(err.Error()), false
	}
	return r
}

func names(all []apply.Written) []string {
	var out []string
	for _, w := range all {
		out = append(out, w.Repository.WithDigest(w.Digest).String())
	}
	return out
}

// platformReceipts lists the images of the root in its order.
func platformReceipts(p plan.Plan) []PlatformReceipt {
	root, _ := p.Manifest(p.Root.Digest)
	idx, err := oci.ParseIndex(root)
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
		r := PlatformReceipt{Platform: oci.FormatPlatform(*e.Platform), Digest: e.Digest, Size: e.Size}
		r.Config, r.ContentSize = contentOf(p, e.Digest)
		out = append(out, r)
	}
	for _, e := range idx.Manifests {
		subject, attests := oci.IsAttestation(e.Descriptor)
		if i, ok := at[subject]; ok && attests {
			out[i].Attestations = append(out[i].Attestations, e.Digest)
		}
	}
	return out
}

func contentOf(p plan.Plan, d digest.Digest) (config digest.Digest, size int64) {
	b, ok := p.Manifest(d)
	if !ok {
		return "", 0
	}
	v, err := oci.ParseManifest(b)
	if err != nil {
		return "", 0
	}
	size = v.Config.Size
	for _, l := range v.Layers {
		size += l.Size
	}
	return v.Config.Digest, size
}

// tagReceipts lists every tag asked for, also those that needed no move.
func tagReceipts(p plan.Plan, res apply.Result) []TagReceipt {
	fates := map[string]apply.TagResult{}
	for _, t := range res.Tags {
		fates[t.Reference.String()] = t
	}
	var out []TagReceipt
	seen := map[string]bool{}
	for _, asked := range p.Targets {
		r, err := ref.ParseTarget(asked.Reference)
		name := r.WithTag(r.Tag).String()
		if err != nil || r.Tag == "" || seen[name] {
			continue
		}
		seen[name] = true
		t, ok := fates[name]
		if !ok {
			out = append(out, TagReceipt{Reference: name, Digest: asked.Digest, Previous: asked.Digest, Fate: string(apply.Unchanged)})
			continue
		}
		out = append(out, TagReceipt{Reference: name, Digest: t.Digest, Previous: t.Previous, Fate: string(t.Fate), Found: t.Found})
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
