package dockermanifest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"golang.org/x/sync/errgroup"
)

// Inspect returns the text, with a newline at its end, that Docker prints: of an
// entry of a local list when list is not "", else of a local list, else of what
// a registry has. Of an index in a registry, every child is read, with its
// config when verbose. Errors: [*NameError], [*NotFoundError], [*AbsentError],
// [*AmbiguousError], what the registries answer.
func (l *Lists) Inspect(ctx context.Context, list, name string, verbose bool) ([]byte, error) {
	r, err := parse(name)
	if err != nil {
		return nil, err
	}
	if list != "" {
		return l.inspectEntry(list, r, verbose)
	}
	entries, err := l.Store.Entries(r)
	var none *NotFoundError
	switch {
	case err == nil:
		return l.inspectList(ctx, r, entries, verbose)
	case !errors.As(err, &none):
		return nil, err
	}
	root, err := l.resolve(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case oci.IsIndex(root.MediaType):
		return l.inspectIndex(ctx, r, root, verbose)
	}
	return l.inspectManifest(ctx, r, root, verbose)
}

func (l *Lists) inspectEntry(list string, source ref.Reference, verbose bool) ([]byte, error) {
	name, err := parse(list)
	if err != nil {
		return nil, err
	}
	e, err := l.Store.Entry(name, source)
	if err != nil {
		return nil, err
	}
	return printEntry(e, verbose)
}

// inspectList shows a local list as it would be pushed.
func (l *Lists) inspectList(ctx context.Context, name ref.Reference, entries []Entry, verbose bool) ([]byte, error) {
	for i := range entries {
		if entries[i].Descriptor.Size > 0 && entries[i].Descriptor.MediaType != "" {
			continue
		}
		if err := l.complete(ctx, name, &entries[i]); err != nil {
			return nil, err
		}
	}
	if !verbose {
		return printList(descriptors(entries))
	}
	for _, e := range entries {
		for _, a := range e.Attestations {
			entries = append(entries, a.entry(e))
		}
	}
	return printEntries(entries)
}

func (l *Lists) inspectManifest(ctx context.Context, name ref.Reference, b oci.Blob, verbose bool) ([]byte, error) {
	e := newEntry(name, b, nil)
	if verbose {
		p, err := l.platform(ctx, name, b)
		if err != nil {
			return nil, err
		}
		e.Descriptor.Platform = &p
	}
	return printEntry(e, verbose)
}

// inspectIndex shows an index as Docker does: marshalled again, without the
// annotations of its entries.
func (l *Lists) inspectIndex(ctx context.Context, name ref.Reference, root oci.Blob, verbose bool) ([]byte, error) {
	idx, err := oci.ParseIndex(root)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(idx.Manifests))
	eg, egctx := errgroup.WithContext(ctx)
	for i, d := range idx.Manifests {
		eg.Go(func() error {
			b, err := l.child(egctx, name, d.Descriptor)
			if err != nil {
				return err
			}
			child := name
			child.Digest = d.Digest
			p := d.Platform
			if p == nil {
				p = &oci.Platform{}
			}
			entries[i] = newEntry(child, b, p)
			return nil
		})
	}
	if err := eg.Wait(); err != nil {
		return nil, err
	}
	if verbose {
		return printEntries(entries)
	}
	return printList(descriptors(entries))
}

// printList prints an index with an indent of three.
func printList(entries []oci.Descriptor) ([]byte, error) {
	b, err := index.DockerList(entries)
	if err != nil {
		return nil, err
	}
	return append(b.Bytes, '\n'), nil
}

func printEntries(entries []Entry) ([]byte, error) {
	all := make([]shown, len(entries))
	for i, e := range entries {
		all[i] = e.shown()
	}
	b, err := json.MarshalIndent(all, "", "\t")
	return append(b, '\n'), err
}

// printEntry prints a manifest with tabs, or all that is known of it.
func printEntry(e Entry, verbose bool) ([]byte, error) {
	if verbose {
		b, err := json.MarshalIndent(e.shown(), "", "\t")
		return append(b, '\n'), err
	}
	return indent(e.View)
}

func indent(v jsontext.Value) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, v, "", "\t"); err != nil {
		return nil, err
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
