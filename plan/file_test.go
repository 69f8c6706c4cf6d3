package plan

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPlanFileReadsBackEqual(t *testing.T) {
	p := valid()
	step(&p, "tag").Check = true
	for name, write := range map[string]func(*bytes.Buffer) error{
		"file":     func(b *bytes.Buffer) error { return p.Write(b) },
		"one line": func(b *bytes.Buffer) error { return p.WriteLine(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if name == "one line" && strings.Contains(b.String(), "\n") {
			t.Error("a line break")
		}
		got, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(p, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestPlanFilesThatAreNotUnderstoodAreRefused(t *testing.T) {
	var b bytes.Buffer
	p := valid()
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"nothing":        "",
		"torn":           b.String()[:b.Len()/2],
		"unknown member": strings.Replace(b.String(), `"version"`, `"onlyOnFridays": true, "version"`, 1),
		"member twice":   strings.Replace(b.String(), `"version": 1`, `"version": 1, "version": 1`, 1),
		"two documents":  b.String() + b.String(),
		"other version":  strings.Replace(b.String(), `"version": 1`, `"version": 2`, 1),
		"other bytes":    strings.Replace(b.String(), `"bytes": "`, `"bytes": "AAAA`, 1),
	} {
		if _, err := Read(strings.NewReader(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestKeyIsThatOfWhatIsPublished: the same publish has it again, whatever its
// tags name by then.
func TestKeyIsThatOfWhatIsPublished(t *testing.T) {
	p := valid()
	p.Targets = []Target{{Reference: "r.test/a:1", Digest: p.Root.Digest}, {Reference: "r.test/a:2", Digest: p.Root.Digest}}
	again := p
	again.Steps = nil
	again.Targets = []Target{p.Targets[1], p.Targets[0]}
	if p.Key() != again.Key() {
		t.Error("another key for the same")
	}
	other := p
	other.Targets = p.Targets[:1]
	if p.Key() == other.Key() {
		t.Error("the same key for other targets")
	}
}

func TestCheckedPutsAPreconditionOnEveryTag(t *testing.T) {
	p := valid()
	c := p.Checked()
	if !step(&c, "tag").Check || step(&c, "put").Check || step(&p, "tag").Check {
		t.Errorf("%+v", c.Steps)
	}
	if got, want := p.Checked().Cost().Requests, p.Cost().Requests+1; got != want {
		t.Errorf("%d requests, want %d", got, want)
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	p := valid()
	if err := p.Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(`{"version":1,"steps":[{"id":"a","op":"move tag","tag":"1"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := Read(bytes.NewReader(in))
		if err == nil && p.Validate() != nil {
			t.Error("read, and not valid")
		}
	})
}
