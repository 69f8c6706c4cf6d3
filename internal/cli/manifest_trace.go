package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"sync"

	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/internal/dockermanifest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// digestTrace notes under which digests a registry acknowledged manifests and
// gave them back. Its methods are safe for concurrent use.
type digestTrace struct {
	mu       sync.Mutex
	answered map[digest.Digest]digest.Digest
	read     map[digest.Digest]digest.Digest
}

// nothing stands where a registry was not asked, or did not say.
const nothing = digest.Digest("none")

// request notes the digest in the answer to a PUT.
func (t *digestTrace) request(r registry.Request) {
	sent := digest.Digest(path.Base(r.URL))
	if r.Method != http.MethodPut || sent.Validate() != nil || r.Status < 200 || r.Status > 299 {
		return
	}
	t.note(&t.answered, sent, digest.Digest(r.Digest))
}

// sink notes what was read back, and passes events on.
func (t *digestTrace) sink(next report.Sink) report.Sink {
	return func(e report.Event) {
		var other *oci.MismatchError
		switch {
		case e.Kind == report.ReadBack && e.State == report.Done:
			t.note(&t.read, e.Digest, e.Digest)
		case e.Kind == report.ReadBack && errors.As(e.Err, &other) && other.What == "digest":
			t.note(&t.read, e.Digest, digest.Digest(other.Got))
		}
		next.Send(e)
	}
}

func (t *digestTrace) note(m *map[digest.Digest]digest.Digest, local, seen digest.Digest) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if *m == nil {
		*m = map[digest.Digest]digest.Digest{}
	}
	(*m)[local] = seen
}

// readRest reads what the push had no need to read again, because it was there
// already.
func (t *digestTrace) readRest(ctx context.Context, r dockermanifest.Registries, p dockermanifest.Pushed) {
	all := []oci.Descriptor{p.Root.Descriptor}
	for _, c := range p.Children {
		all = append(all, c.Descriptor)
	}
	sink := t.sink(nil)
	for _, d := range all {
		if t.read[d.Digest] != "" {
			continue
		}
		d = oci.Descriptor{Digest: d.Digest, Size: d.Size, MediaType: d.MediaType}
		e := report.Event{Kind: report.ReadBack, State: report.Done, Digest: d.Digest}
		if _, err := r.FetchManifest(ctx, p.List, d); err != nil {
			e.State, e.Err = report.Failed, err
		}
		sink(e)
	}
}

// print writes one line per manifest, the list last. A manifest that was in the
// repository already is not sent, so nothing is answered.
func (t *digestTrace) print(w io.Writer, p dockermanifest.Pushed) {
	for _, c := range p.Children {
		t.line(w, c.Digest, p.List.Name()+" "+platformText(c.Platform))
	}
	if p.Root.Digest != "" {
		t.line(w, p.Root.Digest, p.List.String())
	}
}

func (t *digestTrace) line(w io.Writer, local digest.Digest, what string) {
	t.mu.Lock()
	answered, read := t.answered[local], t.read[local]
	t.mu.Unlock()
	verdict := "equal"
	for _, d := range []*digest.Digest{&answered, &read} {
		switch *d {
		case "":
			*d = nothing
		case local:
		default:
			verdict = "DIFFERENT"
		}
	}
	if read == nothing && verdict == "equal" {
		verdict = "not read back"
	}
	_, _ = fmt.Fprintf(w, "local %s  answered %s  read back %s  %s  %s\n", local, render.Line(string(answered)), read, verdict, render.Line(what))
}

func platformText(p *oci.Platform) string {
	if p == nil {
		return ""
	}
	return oci.FormatPlatform(*p)
}
