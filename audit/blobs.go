package audit

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// scope says which blobs of a node to ask for.
type scope func(n *node) []want

// want is a blob to ask for; read says that it is a config whose platform is
// wanted.
type want struct {
	desc oci.Descriptor
	read bool
}

// everything asks for all blobs, and reads the config of every image.
func everything(n *node) []want {
	if n.role == blob {
		return []want{{desc: n.desc}}
	}
	if !n.parsed || n.role == index {
		return nil
	}
	out := []want{{desc: n.manifest.Config, read: hasPlatform(n)}}
	for _, d := range n.manifest.Layers {
		out = append(out, want{desc: d})
	}
	return out
}

// unlabelledConfigs asks for the platforms that descriptors do not say.
func unlabelledConfigs(n *node) []want {
	if !n.parsed || !hasPlatform(n) || !oci.IsUnknownPlatform(n.desc.Platform) {
		return nil
	}
	return []want{{desc: n.manifest.Config, read: true}}
}

// hasPlatform reports whether a node's config is one that says a platform.
func hasPlatform(n *node) bool {
	return n.role == image && oci.IsImageConfig(n.manifest.Config.MediaType) && n.manifest.Config.Size <= oci.MaxConfigSize
}

// answer is what was learned about a blob.
type answer struct {
	fault    *fault
	platform *oci.Platform
}

// blobs asks for the blobs below root, each once, and notes the answers.
func (l *loader) blobs(ctx context.Context, root *node, s scope) error {
	todo := collect(root, s)
	got := make([]answer, len(todo))
	err := l.parallel(ctx, len(todo), func(ctx context.Context, i int) (err error) {
		got[i], err = l.ask(ctx, todo[i])
		return err
	})
	if err != nil {
		return err
	}
	answers := make(map[key]answer, len(todo))
	for i, w := range todo {
		answers[keyOf(w.desc)] = got[i]
	}
	root.each(func(n *node) {
		for _, w := range s(n) {
			n.note(w, answers[keyOf(w.desc)])
		}
	})
	return nil
}

// collect lists what is wanted, each blob once; reading covers asking.
func collect(root *node, s scope) []want {
	var out []want
	place := map[key]int{}
	root.each(func(n *node) {
		for _, w := range s(n) {
			k := keyOf(w.desc)
			i, ok := place[k]
			if !ok {
				place[k] = len(out)
				out = append(out, w)
				continue
			}
			out[i].read = out[i].read || w.read
		}
	})
	return out
}

func (n *node) note(w want, a answer) {
	if n.role != blob { // its own descriptor was looked at already
		for _, f := range dataFault(w.desc) {
			n.part(part{digest: w.desc.Digest, fault: f})
		}
	}
	if a.fault != nil {
		n.part(part{digest: w.desc.Digest, fault: *a.fault})
	}
	if w.read {
		n.config = a.platform
	}
}

// part notes a fault once, though an image may list one layer twice.
func (n *node) part(p part) {
	if !slices.Contains(n.parts, p) {
		n.parts = append(n.parts, p)
	}
}

func (l *loader) ask(ctx context.Context, w want) (answer, error) {
	if w.read {
		return l.readConfig(ctx, w.desc)
	}
	ok, err := l.content.StatBlob(ctx, w.desc)
	if err != nil {
		f, err := l.classify(w.desc, err, BlobMissing)
		return answer{fault: f}, err
	}
	if !ok {
		return answer{fault: absentBlob(w.desc)}, nil
	}
	l.present(w.desc)
	return answer{}, nil
}

func absentBlob(d oci.Descriptor) *fault {
	if isForeign(d) {
		return nil
	}
	return &fault{code: BlobMissing, text: "is not there"}
}

// isForeign reports a layer that is fetched from its URLs, which registries need
// not hold (Windows base layers).
func isForeign(d oci.Descriptor) bool {
	return len(d.URLs) > 0 && (strings.Contains(d.MediaType, ".foreign.") || strings.Contains(d.MediaType, ".nondistributable."))
}

func (l *loader) readConfig(ctx context.Context, d oci.Descriptor) (answer, error) {
	b, err := l.readBlob(ctx, d)
	if err == nil {
		err = oci.Check(d, b)
	}
	var c oci.Config
	if err == nil {
		c, err = oci.ParseConfig(b)
	}
	if err != nil {
		f, err := l.classify(d, err, BlobMissing)
		return answer{fault: f}, err
	}
	l.present(d)
	return answer{platform: &c.Platform}, nil
}

func (l *loader) readBlob(ctx context.Context, d oci.Descriptor) ([]byte, error) {
	r, err := l.content.OpenBlob(ctx, d)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, oci.MaxConfigSize+1))
}

func (l *loader) present(d oci.Descriptor) {
	l.report.Send(report.Event{Kind: report.Blob, State: report.Present, Digest: d.Digest, Media: d.MediaType, Bytes: d.Size})
}
