package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// valid publishes an index of one image under two tags, one of which is right.
func valid() Plan {
	layer := digest.FromString("b")
	child := oci.NewBlob(oci.MediaTypeManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"config":{"mediaType":"c","digest":%q,"size":10},"layers":[]}`, layer))
	root := oci.NewBlob(oci.MediaTypeIndex, fmt.Appendf(nil,
		`{"schemaVersion":2,"manifests":[{"mediaType":%q,"digest":%q,"size":%d}]}`, child.MediaType, child.Digest, child.Size))
	p := Plan{
		Version: Version, Verb: "create", Root: root.Descriptor,
		Targets: []Target{{Reference: "r.test/a:1", Digest: root.Digest}, {Reference: "r.test/a:right", Digest: root.Digest}},
		Held:    []Held{{Target: "r.test/a", Tags: []string{"right"}}},
	}
	for _, b := range []oci.Blob{root, child} {
		p.Manifests = append(p.Manifests, Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes})
	}
	add := func(id string, op Op, b oci.Blob, tag string, after ...string) {
		p.Steps = append(p.Steps, Step{ID: id, Op: op, Target: "r.test/a", Digest: b.Digest, MediaType: b.MediaType, Size: b.Size, Tag: tag, After: after})
	}
	add("blob", CopyBlob, oci.Blob{Descriptor: oci.Descriptor{MediaType: "c", Digest: layer, Size: 10}}, "")
	p.Steps[0].From = []string{"r.test/b"}
	add("put child", PutManifest, child, "", "blob")
	add("put", PutManifest, root, "", "put child")
	add("read child", ReadBack, child, "", "put child", "put")
	add("read", ReadBack, root, "", "put child", "put")
	add("tag", MoveTag, root, "1", "put", "read child", "read")
	add("again", Confirm, child, "", "tag")
	add("confirm", ConfirmTag, root, "1", "tag", "again")
	add("confirm right", ConfirmTag, root, "right", "tag", "again")
	p.Steps[len(p.Steps)-1].Previous = root.Digest
	return p
}

// step is a step of a plan by its ID.
func step(p *Plan, id string) *Step {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id })
	return &p.Steps[i]
}

// without takes a step out, so that nothing waits for it.
func without(p *Plan, id string) {
	p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return s.ID == id })
	for i, s := range p.Steps {
		p.Steps[i].After = slices.DeleteFunc(s.After, func(a string) bool { return a == id })
	}
}

func TestCostCountsRequestsAndBytes(t *testing.T) {
	p := valid()
	root, child := int64(len(p.Manifests[0].Bytes)), int64(len(p.Manifests[1].Bytes))
	if got, want := p.Cost(), (Cost{Requests: 10, Bytes: 10 + child + 2*root, Tags: 1}); got != want {
		t.Errorf("cost %+v, want %+v", got, want)
	}
}

func TestPlansThatCannotRunAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"version":          {func(p *Plan) { p.Version = 2 }, "version 2"},
		"changed bytes":    {func(p *Plan) { p.Manifests[0].Bytes = []byte(`{ }`) }, "digest is"},
		"manifest unnamed": {func(p *Plan) { p.Manifests[0].Digest = "" }, "manifest : invalid"},
		"id twice":         {func(p *Plan) { p.Steps[1].ID = "blob" }, "not unique"},
		"waits for later":  {func(p *Plan) { p.Steps[0].After = []string{"tag"} }, "does not come before"},
		"no source":        {func(p *Plan) { p.Steps[0].From = nil }, "no source"},
		"bytes missing":    {func(p *Plan) { p.Steps[1].Digest = digest.FromString("x") }, "not in the plan"},
		"tag without tag":  {func(p *Plan) { step(p, "tag").Tag = "" }, "tag"},
		"put with a tag":   {func(p *Plan) { p.Steps[1].Tag = "1" }, "tag"},
		"unknown op":       {func(p *Plan) { p.Steps[1].Op = "delete everything" }, "unknown operation"},
		"negative size":    {func(p *Plan) { p.Steps[0].Size = -1 }, "size -1"},
		"size of a put":    {func(p *Plan) { p.Steps[1].Size = 1 << 62 }, "size 4611686018427387904, the manifest has"},
		"blob's path":      {func(p *Plan) { p.Steps[0].Digest = "sha256:../.." }, "invalid checksum"},
		"media type":       {func(p *Plan) { p.Steps[1].MediaType = "text/html" }, `media type "text/html"`},
		"previous":         {func(p *Plan) { step(p, "tag").Previous = "sha256:ab" }, "no digest"},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid()
			tt.change(&p)
			if err := p.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
		})
	}
	if err := valid().Validate(); err != nil {
		t.Errorf("the unchanged plan: %v", err)
	}
}

// TestPlansThatPublishSomethingElseAreRefused: each could run, and would leave
// targets that are not what the plan says, or that nobody has looked at.
func TestPlansThatPublishSomethingElseAreRefused(t *testing.T) {
	other := func(p *Plan, s *Step) {
		s.Digest, s.Size, s.MediaType = p.Manifests[1].Digest, int64(len(p.Manifests[1].Bytes)), oci.MediaTypeManifest
	}
	for name, tt := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"no targets":        {func(p *Plan) { p.Targets = nil }, "no target shall be the root"},
		"no steps":          {func(p *Plan) { p.Steps = nil }, "neither there nor read back"},
		"root garbage":      {func(p *Plan) { p.Root.Digest = "garbage" }, `root "garbage"`},
		"root empty":        {func(p *Plan) { p.Root.Digest = "" }, `root ""`},
		"root is a child":   {func(p *Plan) { p.Root = p.Manifests[1].Blob().Descriptor }, "no target shall be the root"},
		"root's size":       {func(p *Plan) { p.Root.Size = 1 }, "root: size 1"},
		"root's media type": {func(p *Plan) { p.Root.MediaType = oci.MediaTypeManifest }, "root: media type"},
		"child is not there": {func(p *Plan) {
			p.Manifests = p.Manifests[:1]
			without(p, "put child")
			without(p, "read child")
			without(p, "again")
		}, "is not in the plan"},
		"target garbage":     {func(p *Plan) { p.Targets[0].Reference = "A B" }, "target"},
		"target unknown":     {func(p *Plan) { p.Targets[0].Digest = "sha256:ab" }, "not in the plan"},
		"target of two":      {func(p *Plan) { p.Targets = append(p.Targets, Target{"r.test/a:1", p.Manifests[1].Digest}) }, "is to name"},
		"target of a digest": {func(p *Plan) { p.Targets[0].Reference = "r.test/a@" + digest.FromString("x").String() }, "shall be"},
		"targets elsewhere": {func(p *Plan) {
			for i := range p.Steps {
				p.Steps[i].Target = "oci:/tmp/x"
			}
		}, "no target"},
		"more targets":            {func(p *Plan) { p.Targets = append(p.Targets, Target{"r.test/b:1", p.Root.Digest}) }, "neither there nor read back"},
		"more tags":               {func(p *Plan) { p.Targets = append(p.Targets, Target{"r.test/a:2", p.Root.Digest}) }, "r.test/a:2 is not moved"},
		"tag is no target":        {func(p *Plan) { step(p, "tag").Tag = "2" }, "r.test/a:2 is no target"},
		"move to a child":         {func(p *Plan) { other(p, step(p, "tag")) }, "shall name"},
		"confirm a child":         {func(p *Plan) { other(p, step(p, "confirm")) }, "shall name"},
		"no move":                 {func(p *Plan) { without(p, "tag") }, "r.test/a:1 is not moved"},
		"moved twice":             {func(p *Plan) { s := *step(p, "tag"); s.ID = "2"; p.Steps = append(p.Steps, s) }, "does what step tag does"},
		"right and moved":         {func(p *Plan) { p.Held[0].Tags = append(p.Held[0].Tags, "1") }, "names that already"},
		"right and not looked at": {func(p *Plan) { without(p, "confirm right") }, "right is not confirmed"},
		"no confirm":              {func(p *Plan) { without(p, "confirm") }, "r.test/a:1 is not confirmed"},
		"no child read":           {func(p *Plan) { without(p, "read child") }, "neither there nor read back"},
		"no root read":            {func(p *Plan) { without(p, "read") }, "neither there nor read back"},
		"no last look":            {func(p *Plan) { without(p, "again") }, "not looked at after"},
		"read before put":         {func(p *Plan) { step(p, "read").After = []string{"put child"} }, "does not wait for step put"},
		"parent before child":     {func(p *Plan) { step(p, "put").After = nil }, "does not wait for step put child"},
		"manifest before blob":    {func(p *Plan) { step(p, "put child").After = nil }, "does not wait for step blob"},
		"move before read":        {func(p *Plan) { step(p, "tag").After = []string{"put", "read"} }, "does not wait for step read child"},
		"confirm before move":     {func(p *Plan) { step(p, "confirm").After = nil }, "does not wait for step tag"},
		"last look before move":   {func(p *Plan) { step(p, "again").After = nil }, "does not wait for step tag"},
		"previous of the confirm": {func(p *Plan) { step(p, "confirm").Previous = p.Manifests[1].Digest }, "previous"},
		"moves to what it was":    {func(p *Plan) { step(p, "tag").Previous = p.Root.Digest }, "names that already"},
		"another blob":            {func(p *Plan) { p.Steps[0].Digest = digest.FromString("x") }, "belongs to nothing"},
		"blob of another size":    {func(p *Plan) { p.Steps[0].Size = 1 << 62 }, "belongs to nothing"},
		"holds elsewhere":         {func(p *Plan) { p.Held[0].Target = "r.test/b" }, "no target"},
		"holds another tag":       {func(p *Plan) { p.Held[0].Tags = []string{"x"} }, "no part"},
		"whole child":             {func(p *Plan) { p.Held[0].Whole = []digest.Digest{p.Manifests[1].Digest} }, "no part"},
		"stray manifest": {func(p *Plan) {
			b := oci.NewBlob(oci.MediaTypeManifest, []byte(`{}`))
			p.Manifests = append(p.Manifests, Manifest{MediaType: b.MediaType, Digest: b.Digest, Bytes: b.Bytes})
			p.Steps = append(p.Steps, Step{ID: "x", Op: PutManifest, Target: "r.test/a", Digest: b.Digest, MediaType: b.MediaType, Size: b.Size})
		}, "belongs to nothing"},
	} {
		t.Run(name, func(t *testing.T) {
			p := valid()
			tt.change(&p)
			var refused *Error
			if err := p.Validate(); !errors.As(err, &refused) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPlanOfWhatIsThereHasNoSteps: then it says what is held.
func TestPlanOfWhatIsThereHasNoSteps(t *testing.T) {
	p := valid()
	p.Steps = nil
	p.Held[0].Tags, p.Held[0].Manifests = []string{"1", "right"}, []digest.Digest{p.Manifests[0].Digest, p.Manifests[1].Digest}
	if err := p.Validate(); err != nil {
		t.Error(err)
	}
	p.Held[0].Manifests, p.Held[0].Whole = p.Held[0].Manifests[:1], p.Held[0].Manifests[:1]
	if err := p.Validate(); err != nil {
		t.Errorf("of a root by itself: %v", err)
	}
}

// TestSplitKeepsEveryStepOnce, and the rest waits for nothing that is elsewhere.
func TestSplitKeepsEveryStepOnce(t *testing.T) {
	now, later := valid().Split(func(s Step) bool { return s.Op == CopyBlob })
	if len(now.Steps) != 1 || now.Steps[0].ID != "blob" || len(later.Steps) != len(valid().Steps)-1 || len(later.Steps[0].After) != 0 {
		t.Errorf("now %+v, later %+v", now.Steps, later.Steps)
	}
	for name, p := range map[string]Plan{"now": now, "later": later} {
		if err := p.Runnable(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := later.Validate(); err != nil {
		t.Errorf("the rest is no whole plan: %v", err)
	}
}

func TestSourcesOfTheRunThatIsUnderWayComeFirst(t *testing.T) {
	other := valid()
	other.Steps[0].From = []string{"s.test/c", "r.test/b"}
	p := valid()
	got := p.WithSources(other).Steps[0].From
	if strings.Join(got, " ") != "s.test/c r.test/b" || len(p.Steps[0].From) != 1 {
		t.Errorf("from %v, the plan itself %v", got, p.Steps[0].From)
	}
}
