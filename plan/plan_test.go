package plan

import (
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func valid() Plan {
	root := oci.NewBlob(oci.MediaTypeIndex, []byte(`{}`))
	m := Manifest{MediaType: root.MediaType, Digest: root.Digest, Bytes: root.Bytes}
	return Plan{Version: Version, Root: root.Descriptor, Manifests: []Manifest{m}, Steps: []Step{
		{ID: "blob", Op: CopyBlob, Target: "r.test/a", Digest: digest.FromString("b"), Size: 10, From: []string{"r.test/b"}},
		{ID: "put", Op: PutManifest, Target: "r.test/a", Digest: root.Digest, Size: 2, After: []string{"blob"}},
		{ID: "tag", Op: MoveTag, Target: "r.test/a", Digest: root.Digest, Size: 2, Tag: "1", After: []string{"put"}},
	}}
}

func TestCostCountsRequestsAndBytes(t *testing.T) {
	if got, want := valid().Cost(), (Cost{Requests: 4, Bytes: 14, Tags: 1}); got != want {
		t.Errorf("cost %+v, want %+v", got, want)
	}
}

func TestPlansThatCannotRunAreRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Plan)
		want   string
	}{
		"version":         {func(p *Plan) { p.Version = 2 }, "version 2"},
		"changed bytes":   {func(p *Plan) { p.Manifests[0].Bytes = []byte(`{ }`) }, "digest is"},
		"id twice":        {func(p *Plan) { p.Steps[1].ID = "blob" }, "not unique"},
		"waits for later": {func(p *Plan) { p.Steps[0].After = []string{"tag"} }, "does not come before"},
		"no source":       {func(p *Plan) { p.Steps[0].From = nil }, "no source"},
		"bytes missing":   {func(p *Plan) { p.Steps[1].Digest = digest.FromString("x") }, "not in the plan"},
		"tag without tag": {func(p *Plan) { p.Steps[2].Tag = "" }, "tag"},
		"put with a tag":  {func(p *Plan) { p.Steps[1].Tag = "1" }, "tag"},
		"unknown op":      {func(p *Plan) { p.Steps[1].Op = "delete everything" }, "unknown operation"},
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

// TestSplitKeepsEveryStepOnce, and the rest waits for nothing that is elsewhere.
func TestSplitKeepsEveryStepOnce(t *testing.T) {
	now, later := valid().Split(func(s Step) bool { return s.Op == CopyBlob })
	if len(now.Steps) != 1 || now.Steps[0].ID != "blob" || len(later.Steps) != 2 || len(later.Steps[0].After) != 0 {
		t.Errorf("now %+v, later %+v", now.Steps, later.Steps)
	}
	for name, p := range map[string]Plan{"now": now, "later": later} {
		if err := p.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
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
