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
	targets []target
	// removed are platforms that go on purpose.
	removed []string

	out plan.Plan
	// written and read are the step IDs of each phase, for what waits on them.
	written map[int][]string
	read    []string
	moved   []string
}

func (w *writer) plan(verb string, items []Item) (plan.Plan, error) {
	w.written = map[int][]string{}
	w.out = plan.Plan{Version: plan.Version, Verb: verb, Root: w.root.Descriptor}
	for _, item := range items {
		for _, r := range item.Targets {
			w.out.Targets = append(w.out.Targets, plan.Target{Reference: r.String(), Digest: item.Root.Digest})
		}
	}
	w.carry(w.root)
	for i := range w.targets {
		for _, m := range w.targets[i].ordered {
			w.carry(m.Blob)
		}
	}
	for i := range w.targets {
		if err := w.content(i); err != nil {
			return plan.Plan{}, err
		}
	}
	for i := range w.targets {
		w.held(i, items)
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

// content writes blobs, then manifests, each after all it refers to.
func (w *writer) content(i int) error {
	blobs := map[digest.Digest]string{}
	puts := map[digest.Digest]string{}
	for _, m := range w.targets[i].ordered {
		if w.targets[i].holds(m) {
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
	return nil
}

// blobs adds the steps for the blobs that a manifest points at and returns their
// IDs; known holds those that an earlier manifest has asked for.
func (w *writer) blobs(i int, m Manifest, known map[digest.Digest]string) ([]string, error) {
	all, err := BlobsOf(m.Blob)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, d := range all {
		if w.targets[i].blobs[d.Digest] || slices.Contains(m.Held[w.targets[i].repo.Name()], d.Digest) {
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

// BlobsOf are the blobs that a manifest points at, each once: config and layers
// of an image, and the entries of an index that are no manifests (a cache of
// BuildKit).
func BlobsOf(b oci.Blob) ([]oci.Descriptor, error) {
	refs, err := oci.References(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Digest, err)
	}
	isIndex := oci.IsIndex(b.MediaType)
	return slices.DeleteFunc(oci.Unique(refs), func(d oci.Descriptor) bool {
		return isIndex && oci.IsManifest(d.MediaType) || elsewhere(d)
	}), nil
}

// elsewhere reports a layer that lives at its URLs: registries neither ask for
// it nor may hold it.
func elsewhere(d oci.Descriptor) bool {
	return len(d.URLs) > 0 && strings.Contains(d.MediaType, "nondistributable") || strings.Contains(d.MediaType, ".foreign.")
}

// sources are the places that have the blobs of m, those on the target's host
// first: they may be mounted.
func (w *writer) sources(i int, m Manifest) []string {
	places := m.BlobsAt
	if len(places) == 0 {
		places = m.Places()
	}
	if len(places) == 0 {
		places = w.anywhere(i)
	}
	prefix := w.targets[i].repo.Host + "/"
	out := slices.Clone(places)
	slices.SortStableFunc(out, func(a, b string) int {
		return boolInt(strings.HasPrefix(b, prefix)) - boolInt(strings.HasPrefix(a, prefix))
	})
	return out
}

// anywhere are all places of a target's content: an index that was made in this
// run has no place of its own, and its entries that are blobs are where they
// were read.
func (w *writer) anywhere(i int) []string {
	var out []string
	for _, m := range w.targets[i].ordered {
		for _, p := range m.Places() {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// readBacks reads every manifest that this run has not read at this target.
// Nothing is read back where nothing is to be moved or written.
func (w *writer) readBacks(i int) {
	t := w.targets[i]
	for _, c := range t.contents {
		moves := t.moves(c.root)
		for _, m := range c.ordered {
			trusted := t.holds(m) && (t.present[m.Digest] && (!moves || m.Digest == c.root) || t.read(m))
			if trusted {
				w.trust(i, m.Digest)
			} else {
				w.readBack(i, m.Descriptor)
			}
		}
	}
}

// held says what a target has already, so that whoever reads the plan can tell
// that no step is missing.
func (w *writer) held(i int, items []Item) {
	t := w.targets[i]
	h := plan.Held{Target: t.repo.Name()}
	for _, g := range t.tags {
		if g.right() {
			h.Tags = append(h.Tags, g.name)
		}
	}
	for _, c := range t.contents {
		if items[c.item].Held && !slices.Contains(h.Whole, c.root) {
			h.Whole = append(h.Whole, c.root)
		}
	}
	if h.Tags != nil || h.Whole != nil {
		w.out.Held = append(w.out.Held, h)
	}
}

// trust notes a manifest that is not read back.
func (w *writer) trust(i int, d digest.Digest) {
	name := w.targets[i].repo.Name()
	at := slices.IndexFunc(w.out.Held, func(h plan.Held) bool { return h.Target == name })
	if at < 0 {
		at = len(w.out.Held)
		w.out.Held = append(w.out.Held, plan.Held{Target: name})
	}
	if h := &w.out.Held[at]; !slices.Contains(h.Manifests, d) {
		h.Manifests = append(h.Manifests, d)
	}
}

func (w *writer) readBack(i int, d oci.Descriptor) {
	s := w.step(i, plan.ReadBack, d)
	if slices.Contains(w.read, s.ID) {
		return
	}
	s.After = slices.Clone(w.written[i])
	w.read = append(w.read, w.add(s))
}

// moves reports whether a tag that is to name root has to move.
func (t *target) moves(root digest.Digest) bool {
	return slices.ContainsFunc(t.tags, func(g tag) bool { return g.root.Digest == root && !g.right() })
}

// tags adds one move per tag that does not name its root yet. Each waits for all
// content everywhere and for the tag before it.
func (w *writer) tags(i int) {
	t := w.targets[i]
	for _, g := range t.tags {
		if g.right() {
			continue
		}
		w.carry(g.previous)
		if text := shrinks(g.previous, g.root, w.removed); text != "" {
			w.out.Warnings = append(w.out.Warnings, t.repo.WithTag(g.name).String()+": "+text)
		}
		s := w.step(i, plan.MoveTag, g.root.Descriptor)
		s.ID = fmt.Sprintf("%d/move-tag/%s", i, g.name)
		s.Tag, s.Previous, s.Check = g.name, g.previous.Digest, g.checked
		if n := len(w.moved); n > 0 {
			s.After = []string{w.moved[n-1]}
		} else {
			s.After = append(w.allWritten(), w.read...)
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

// confirms reads every manifest below the moved tags again, and then all tags:
// the later a tag is read, the more of the writers that were at it too are
// noticed. A tag that was right is read too, since other tags have taken their
// time meanwhile; where none moves, it has just been read.
func (w *writer) confirms(i int) {
	t := w.targets[i]
	if len(w.moved) == 0 {
		return
	}
	last := []string{w.moved[len(w.moved)-1]}
	after := append(slices.Clone(last), w.confirmManifests(i, last)...)
	for _, g := range t.tags {
		s := w.step(i, plan.ConfirmTag, g.root.Descriptor)
		s.ID = fmt.Sprintf("%d/confirm-tag/%s", i, g.name)
		s.Tag, s.Previous, s.Check, s.After = g.name, g.previous.Digest, g.checked, after
		w.add(s)
	}
}

// confirmManifests adds the steps for the manifests below moved tags, and returns
// their IDs.
func (w *writer) confirmManifests(i int, after []string) []string {
	t := w.targets[i]
	done := map[digest.Digest]bool{}
	var ids []string
	for _, c := range t.contents {
		if named, _ := t.names(c.root); named && !t.moves(c.root) || !slices.ContainsFunc(t.tags, func(g tag) bool { return !g.right() }) {
			continue
		}
		for _, m := range c.ordered {
			if done[m.Digest] || t.moves(m.Digest) {
				continue
			}
			done[m.Digest] = true
			s := w.step(i, plan.Confirm, m.Descriptor)
			s.After = after
			ids = append(ids, w.add(s))
		}
	}
	return ids
}
