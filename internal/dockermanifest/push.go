package dockermanifest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// Pushed is what a push did.
type Pushed struct {
	List ref.Reference
	// Root is the list as it was pushed.
	Root oci.Blob
	// Children are its manifests, in its order.
	Children []Child
	// Lines are what Docker prints: one for each child that came from another
	// repository, then the digest of the list. After a failure they are those
	// of the children that were put.
	Lines []string
}

// Child is a manifest of a list.
type Child struct {
	oci.Descriptor
	// From is the repository that it came from.
	From ref.Reference
}

// Push publishes a list under its name: every child byte for byte, content
// first, the tag last and only onto a list that was read back whole. purge
// removes the local list after that.
//
// Errors: [*NameError], [*NotFoundError], [*NoPlatformError], [*BytesError],
// [*AbsentError] for an entry without bytes that its registry has no more,
// [*PutError], those of package apply.
func (l *Lists) Push(ctx context.Context, list string, purge bool) (Pushed, error) {
	name, err := parse(list)
	if err != nil {
		return Pushed{}, err
	}
	entries, err := l.Store.Entries(name)
	if err != nil {
		return Pushed{}, err
	}
	if len(entries) == 0 {
		return Pushed{}, fmt.Errorf("%s not found", name)
	}
	pushed, err := l.publish(ctx, name, entries)
	if err == nil && purge {
		err = l.Store.Remove(name)
	}
	return pushed, err
}

func (l *Lists) publish(ctx context.Context, name ref.Reference, entries []Entry) (Pushed, error) {
	p := Pushed{List: name}
	for _, e := range entries {
		if pl := e.Descriptor.Platform; pl == nil || pl.OS == "" || pl.Architecture == "" {
			return p, &NoPlatformError{Ref: e.Ref.String()}
		}
	}
	l.warnDuplicates(name, entries)
	content, err := l.content(ctx, name, entries)
	if err != nil {
		return p, err
	}
	p.Root, p.Children = content.Root, children(entries)
	put, err := l.Registries.Publish(ctx, content, name)
	p.Lines = lines(p, put, err == nil)
	return p, putError(name, err)
}

// warnDuplicates says what Docker accepts in silence (moby/moby#41507).
func (l *Lists) warnDuplicates(name ref.Reference, entries []Entry) {
	first := map[string]Entry{}
	for _, e := range entries {
		key := oci.PlatformKey(*e.Descriptor.Platform)
		had, ok := first[key]
		if ok && had.Descriptor.Digest != e.Descriptor.Digest {
			l.Report.Warn(name.String(), fmt.Sprintf("%s and %s are both for %s: a runtime takes the first",
				had.Ref, e.Ref, oci.FormatPlatform(*e.Descriptor.Platform)))
		}
		if !ok {
			first[key] = e
		}
	}
}

// content makes the list and collects its manifests, each with the place that
// holds its blobs.
func (l *Lists) content(ctx context.Context, name ref.Reference, entries []Entry) (publish.Content, error) {
	manifests := make([][]publish.Manifest, len(entries))
	eg, egctx := errgroup.WithContext(ctx)
	for i := range entries {
		eg.Go(func() (err error) {
			manifests[i], err = l.manifests(egctx, name, &entries[i])
			return err
		})
	}
	if err := eg.Wait(); err != nil {
		return publish.Content{}, err
	}
	root, err := index.DockerList(descriptors(entries))
	return publish.Content{Root: root, Manifests: slices.Concat(manifests...)}, err
}

// manifests are those of one entry.
func (l *Lists) manifests(ctx context.Context, name ref.Reference, e *Entry) ([]publish.Manifest, error) {
	if len(e.Raw) == 0 {
		if err := l.complete(ctx, name, e); err != nil {
			return nil, err
		}
	}
	b, err := e.blob()
	if err != nil {
		return nil, err
	}
	all := []oci.Blob{b}
	for _, a := range e.Attestations {
		b, err := a.entry(*e).blob()
		if err != nil {
			return nil, err
		}
		all = append(all, b)
	}
	var out []publish.Manifest
	for _, b := range all {
		m, err := l.place(ctx, name, e.Ref, b)
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// place says where a manifest can be had. One of the target's own repository is
// read there: that is its read back, and where it is gone it is sent again.
func (l *Lists) place(ctx context.Context, target, from ref.Reference, b oci.Blob) (publish.Manifest, error) {
	m := publish.Manifest{Blob: b}
	at := []string{from.Name()}
	if !target.SameRepository(from) {
		m.At = at
		return m, nil
	}
	_, err := l.Registries.FetchManifest(ctx, target, b.Descriptor)
	switch {
	case err == nil:
		l.Report.Send(report.Event{Kind: report.ReadBack, State: report.Done, Target: target.Name(), Digest: b.Digest, Media: b.MediaType})
		m.At, m.Seen = at, at
	case registry.Absent(err):
		m.BlobsAt = at
	default:
		return m, err
	}
	return m, nil
}

// complete reads the manifest of an entry that an older Docker has written
// without its bytes, by its digest, and keeps the bytes.
func (l *Lists) complete(ctx context.Context, name ref.Reference, e *Entry) error {
	d := oci.Descriptor{MediaType: e.Descriptor.MediaType, Digest: e.Descriptor.Digest, Size: e.Descriptor.Size}
	b, err := l.Registries.FetchManifest(ctx, e.Ref, d)
	if registry.Absent(err) {
		return &AbsentError{Name: e.Ref.WithDigest(d.Digest).String(), Err: err}
	}
	if err != nil {
		return err
	}
	e.Descriptor.MediaType, e.Descriptor.Size, e.Raw = b.MediaType, b.Size, b.Bytes
	if e.View == nil {
		e.View = b.Bytes
	}
	return l.Store.Save(name, *e)
}

// children are the manifests of the list that is made of entries, in its order:
// images without annotations, as Docker lists them, then attestations with
// theirs.
func children(entries []Entry) []Child {
	var out []Child
	for _, e := range entries {
		d := e.Descriptor
		d.Annotations = nil
		out = append(out, Child{Descriptor: d, From: e.Ref.Repo()})
	}
	for _, e := range entries {
		for _, a := range e.Attestations {
			out = append(out, Child{Descriptor: a.Descriptor, From: e.Ref.Repo()})
		}
	}
	return out
}

func descriptors(entries []Entry) []oci.Descriptor {
	var out []oci.Descriptor
	for _, c := range children(entries) {
		out = append(out, c.Descriptor)
	}
	return out
}

func lines(p Pushed, put []digest.Digest, done bool) []string {
	var out []string
	for _, c := range p.Children {
		if !c.From.SameRepository(p.List) && (done || slices.Contains(put, c.Digest)) {
			out = append(out, fmt.Sprintf("Pushed ref %s with digest: %s", p.List.WithDigest(c.Digest), c.Digest))
		}
	}
	if done {
		out = append(out, p.Root.Digest.String())
	}
	return out
}

// putError gives a manifest that was refused the words of Docker.
func putError(name ref.Reference, err error) error {
	var step *apply.StepError
	if !errors.As(err, &step) {
		return err
	}
	switch step.Step.Op {
	case plan.PutManifest:
		return &PutError{Ref: name.WithDigest(step.Step.Digest).String(), Err: step.Err}
	case plan.MoveTag:
		return &PutError{Ref: name.WithTag(step.Step.Tag).String(), Err: step.Err}
	}
	return err
}
