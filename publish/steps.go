package publish

import (
	"fmt"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/opencontainers/go-digest"
)

// writer turns what is known into steps. Its phases follow the order of a
// publish: content of all targets, read backs of all targets, tags, confirms.
type writer struct {
	root    oci.Blob
	ordered []Manifest
	targets []target

	out plan.Plan
	// written and read are the step IDs of each phase, for what waits on them.
	written map[int][]string
	read    []string
	moved   []string
}

func (w *writer) plan(verb string) (plan.Plan, error) {
	w.written = map[int][]string{}
	w.out = plan.Plan{Version: plan.Version, Verb: verb, Root: w.root.Descriptor}
	w.carry(w.root)
	for _, m := range w.ordered {
		w.carry(m.Blob)
	}
	for i := range w.targets {
		if err := w.content(i); err != nil {
			return plan.Plan{}, err
		}
	}
	for i := range w.targets {
		w.readBacks(i)
	}
	for i := range w.targets {
		w.tags(i)
	}
	for i := range w.targets {
		w.confirms(i)
	}
	return w.out, w.out.Validate()
}

// carry puts the bytes of a manifest into the plan, once.
func (w *writer) carry(b oci.Blob) {
	if b.Bytes == nil {
		return
	}
	if _, ok := w.out.Manifest(b.Digest); !ok {
		w.out.Manifests = append(w.out.Manifests, plan.Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes})
	}
}

func (w *writer) add(s plan.Step) string {
	w.out.Steps = append(w.out.Steps, s)
	return s.ID
}

func (w *writer) step(i int, op plan.Op, d oci.Descriptor) plan.Step {
	return plan.Step{
		ID: stepID(i, op, d.Digest), Op: op, Target: w.targets[i].repo.Name(),
		Digest: d.Digest, MediaType: d.MediaType, Size: d.Size,
	}
}

func stepID(i int, op plan.Op, d digest.Digest) string {
	return fmt.Sprintf("%d/%s/%s", i, strings.ReplaceAll(string(op), " ", "-"), d.Encoded()[:16])
}

// holds reports whether a target has a manifest and all it points at.
func (w *writer) holds(i int, m Manifest) bool {
	return slices.Contains(m.At, w.targets[i].repo.Name()) || w.targets[i].present[m.Digest]
}

// content writes blobs, then manifests, then the root of one target.
func (w *writer) content(i int) error {
	blobs := map[digest.Digest]string{}
	puts := map[digest.Digest]string{}
	for _, m := range w.ordered {
		if w.holds(i, m) {
			continue
		}
		after, err := w.blobs(i, m, blobs)
		if err != nil {
			return err
		}
		needs, err := dependencies(m.Blob)
		if err != nil {
			return err
		}
		for _, d := range append(needs.required, needs.optional...) {
			if id, ok := puts[d]; ok {
				after = append(after, id)
			}
		}
		s := w.step(i, plan.PutManifest, m.Descriptor)
		s.After = after
		puts[m.Digest] = w.add(s)
		w.written[i] = append(w.written[i], s.ID)
	}
	if !w.targets[i].present[w.root.Digest] {
		s := w.step(i, plan.PutManifest, w.root.Descriptor)
		s.After = slices.Clone(w.written[i])
		w.written[i] = append(w.written[i], w.add(s))
	}
	return nil
}

// blobs adds the steps for what an image manifest points at and returns their
// IDs; known holds those that an earlier image has asked for.
func (w *writer) blobs(i int, m Manifest, known map[digest.Digest]string) ([]string, error) {
	if oci.IsIndex(m.MediaType) {
		return nil, nil
	}
	refs, err := oci.References(m.Blob)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Digest, err)
	}
	var ids []string
	for _, d := range oci.Unique(refs) {
		if len(d.URLs) > 0 && strings.Contains(d.MediaType, "nondistributable") || strings.Contains(d.MediaType, ".foreign.") {
			continue // lives at its URLs, registries neither ask for it nor may hold it
		}
		if slices.Contains(m.Held[w.targets[i].repo.Name()], d.Digest) {
			continue
		}
		id, ok := known[d.Digest]
		if !ok {
			s := w.step(i, plan.CopyBlob, d)
			s.From = w.sources(i, m)
			id = w.add(s)
			known[d.Digest] = id
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// sources are the places that have the blobs of m, those on the target's host
// first: they may be mounted.
func (w *writer) sources(i int, m Manifest) []string {
	places := m.BlobsAt
	if len(places) == 0 {
		places = m.At
	}
	prefix := w.targets[i].repo.Host + "/"
	out := slices.Clone(places)
	slices.SortStableFunc(out, func(a, b string) int {
		return boolInt(strings.HasPrefix(b, prefix)) - boolInt(strings.HasPrefix(a, prefix))
	})
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readBacks reads the root and every child that this run has not read at this
// target. Nothing is read back where nothing is to be moved or written.
func (w *writer) readBacks(i int) {
	t := w.targets[i]
	for _, m := range w.ordered {
		if slices.Contains(m.Seen, t.repo.Name()) || t.present[m.Digest] && !w.moves(i) {
			continue
		}
		w.readBack(i, m.Descriptor)
	}
	if !t.present[w.root.Digest] {
		w.readBack(i, w.root.Descriptor)
	}
}

func (w *writer) readBack(i int, d oci.Descriptor) {
	s := w.step(i, plan.ReadBack, d)
	s.After = slices.Clone(w.written[i])
	w.read = append(w.read, w.add(s))
}

// moves reports whether a tag of the target has to move.
func (w *writer) moves(i int) bool {
	return slices.ContainsFunc(w.targets[i].tags, func(g tag) bool { return g.previous.Digest != w.root.Digest })
}

// tags adds one move per tag that does not name the root yet. Each waits for all
// content everywhere and for the tag before it.
func (w *writer) tags(i int) {
	t := w.targets[i]
	for _, g := range t.tags {
		if g.previous.Digest == w.root.Digest {
			continue
		}
		w.carry(g.previous)
		if text := shrinks(g.previous, w.root); text != "" {
			w.out.Warnings = append(w.out.Warnings, t.repo.WithTag(g.name).String()+": "+text)
		}
		s := w.step(i, plan.MoveTag, w.root.Descriptor)
		s.ID = fmt.Sprintf("%d/move-tag/%s", i, g.name)
		s.Tag, s.Previous = g.name, g.previous.Digest
		s.After = append(w.allWritten(), w.read...)
		if n := len(w.moved); n > 0 {
			s.After = []string{w.moved[n-1]}
		}
		w.moved = append(w.moved, w.add(s))
	}
}

func (w *writer) allWritten() []string {
	var out []string
	for i := range w.targets {
		out = append(out, w.written[i]...)
	}
	return out
}

// confirms reads the moved tags and, where a tag has moved, every child again.
func (w *writer) confirms(i int) {
	t := w.targets[i]
	if !w.moves(i) {
		return
	}
	last := []string{w.moved[len(w.moved)-1]}
	for _, g := range t.tags {
		if g.previous.Digest == w.root.Digest {
			continue
		}
		s := w.step(i, plan.ConfirmTag, w.root.Descriptor)
		s.ID = fmt.Sprintf("%d/confirm-tag/%s", i, g.name)
		s.Tag, s.Previous, s.After = g.name, g.previous.Digest, last
		w.add(s)
	}
	for _, m := range w.ordered {
		s := w.step(i, plan.Confirm, m.Descriptor)
		s.After = last
		w.add(s)
	}
}
