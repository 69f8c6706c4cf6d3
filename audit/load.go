package audit

import (
	"context"
	"errors"
	"fmt"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// loader reads an image level by level, each digest once.
type loader struct {
	content     Content
	absent      func(error) bool
	concurrency int
	report      report.Sink
	manifests   map[key]fetched
	// expanded are the indexes whose entries were followed.
	expanded map[digest.Digest]bool
}

// key is content as it is asked for: one digest may be listed with two sizes,
// of which one is wrong.
type key struct {
	digest digest.Digest
	size   int64
}

func keyOf(d oci.Descriptor) key { return key{digest: d.Digest, size: d.Size} }

// fetched is a manifest, or why there is none.
type fetched struct {
	blob  oci.Blob
	fault *fault
}

func newLoader(c Content, o Options) *loader {
	l := &loader{
		content: c, absent: o.Absent, concurrency: o.Concurrency, report: o.Report,
		manifests: map[key]fetched{}, expanded: map[digest.Digest]bool{},
	}
	if l.absent == nil {
		l.absent = func(error) bool { return false }
	}
	if l.concurrency <= 0 {
		l.concurrency = defaultConcurrency
	}
	return l
}

func (l *loader) load(ctx context.Context, root oci.Blob) (*node, error) {
	n := &node{desc: root.Descriptor}
	l.take(n, fetched{blob: root})
	level := l.descend(n)
	for len(level) > 0 {
		if err := l.fetchAll(ctx, level); err != nil {
			return nil, err
		}
		var next []*node
		for _, c := range level {
			if c.role != blob {
				l.take(c, l.manifests[keyOf(c.desc)])
			}
			next = append(next, l.descend(c)...)
		}
		level = next
	}
	return n, nil
}

// descend makes the nodes of an index's entries. An index that stands in two
// places is followed once, so that a small image cannot unfold without bound.
func (l *loader) descend(n *node) []*node {
	if !n.parsed || n.role != index || l.expanded[n.desc.Digest] {
		return nil
	}
	if len(n.path) >= oci.MaxDepth {
		n.fault = &fault{code: NestedIndex, text: (&oci.DepthError{Digest: n.desc.Digest}).Error()}
		return nil
	}
	l.expanded[n.desc.Digest] = true
	for _, e := range n.index.Manifests {
		c := &node{desc: e.Descriptor, path: n.below()}
		if !oci.IsManifest(e.MediaType) {
			c.role = blob
			c.notes = dataFault(c.desc)
			c.settle()
		}
		n.children = append(n.children, c)
	}
	return n.children
}

// fetchAll reads the manifests of a level that were not read yet.
func (l *loader) fetchAll(ctx context.Context, level []*node) error {
	var todo []oci.Descriptor
	asked := map[key]bool{}
	for _, n := range level {
		k := keyOf(n.desc)
		if _, ok := l.manifests[k]; ok || asked[k] || !oci.IsManifest(n.desc.MediaType) {
			continue
		}
		asked[k] = true
		todo = append(todo, n.desc)
	}
	got := make([]fetched, len(todo))
	err := l.parallel(ctx, len(todo), func(ctx context.Context, i int) (err error) {
		got[i], err = l.fetch(ctx, todo[i])
		return err
	})
	for i, d := range todo {
		l.manifests[keyOf(d)] = got[i]
	}
	return err
}

func (l *loader) fetch(ctx context.Context, d oci.Descriptor) (fetched, error) {
	b, err := l.content.FetchManifest(ctx, d)
	if err != nil {
		f, err := l.classify(d, err, ChildMissing)
		return fetched{fault: f}, err
	}
	l.report.Send(report.Event{Kind: report.ReadBack, State: report.Done, Digest: d.Digest, Media: b.MediaType, Bytes: int64(len(b.Bytes))})
	return fetched{blob: b}, nil
}

// classify tells a fault of the content from a place that could not be asked.
func (l *loader) classify(d oci.Descriptor, err error, missing Code) (*fault, error) {
	var mismatch *oci.MismatchError
	var syntax *oci.SyntaxError
	switch {
	case errors.As(err, &mismatch):
		return mismatchFault(mismatch), nil
	case errors.As(err, &syntax):
		return &fault{code: Syntax, text: syntax.Error()}, nil
	case l.absent(err):
		return &fault{code: missing, text: "is not there"}, nil
	}
	return nil, &Error{Digest: d.Digest, Err: err}
}

func mismatchFault(m *oci.MismatchError) *fault {
	code := DigestMismatch
	switch m.What {
	case "size":
		code = SizeMismatch
	case "media type":
		code = MediaTypeMismatch
	}
	return &fault{code: code, text: m.Error()}
}

// take parses what was fetched for a node and compares it with its descriptor.
func (l *loader) take(n *node, got fetched) {
	defer n.settle()
	n.notes = append(n.notes, dataFault(n.desc)...)
	if n.fault = got.fault; n.fault != nil {
		return
	}
	var mismatch *oci.MismatchError
	if err := oci.Check(n.desc, got.blob.Bytes); errors.As(err, &mismatch) {
		f := mismatchFault(mismatch)
		if f.code == DigestMismatch {
			n.fault = f
			return
		}
		n.notes = append(n.notes, *f)
	}
	mediaType, err := oci.BodyMediaType(got.blob.Bytes)
	if err != nil {
		n.fault = &fault{code: Syntax, text: err.Error()}
		return
	}
	n.notes = append(n.notes, mediaTypeFault(n.desc.MediaType, mediaType, got.blob.MediaType)...)
	if mediaType == "" {
		mediaType = n.desc.MediaType
	}
	n.parse(oci.Blob{Bytes: got.blob.Bytes, Descriptor: oci.Descriptor{MediaType: mediaType, Digest: n.desc.Digest}})
}

// parse reads the body by the media type that it says it has.
func (n *node) parse(b oci.Blob) {
	var err error
	switch {
	case oci.IsIndex(b.MediaType):
		n.index, err = oci.ParseIndex(b)
	case oci.IsImageManifest(b.MediaType):
		n.manifest, err = oci.ParseManifest(b)
	default:
		err = &oci.SyntaxError{Field: "/mediaType", Reason: fmt.Sprintf("%q is neither an index nor an image manifest", b.MediaType)}
	}
	if err != nil {
		n.fault = &fault{code: Syntax, text: err.Error()}
		return
	}
	n.parsed = true
}

// mediaTypeFault compares what the descriptor says with the body's own field
// and with the type that the content came with.
func mediaTypeFault(want, body, served string) []fault {
	text := ""
	switch {
	case want == "":
	case body != "" && body != want:
		text = fmt.Sprintf("the manifest says %s, its descriptor %s", body, want)
	case served != "" && served != want:
		text = fmt.Sprintf("is served as %s, its descriptor says %s", served, want)
	}
	if text == "" {
		return nil
	}
	return []fault{{code: MediaTypeMismatch, text: text}}
}

// dataFault compares content embedded in a descriptor with what it embeds.
func dataFault(d oci.Descriptor) []fault {
	if d.Data == nil {
		return nil
	}
	if err := oci.Check(d, d.Data); err != nil {
		return []fault{{code: DataMismatch, text: "the data in its descriptor is other content: " + err.Error()}}
	}
	return nil
}

// parallel calls f for 0..n-1 and returns the first error.
func (l *loader) parallel(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	eg, ctx := errgroup.WithContext(ctx)
	eg.SetLimit(l.concurrency)
	for i := range n {
		eg.Go(func() error { return f(ctx, i) })
	}
	return eg.Wait()
}
