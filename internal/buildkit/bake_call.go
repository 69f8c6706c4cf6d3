package buildkit

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/docker/buildx/bake"
	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/util/buildflags"
	"github.com/docker/buildx/util/confutil"
	"github.com/docker/buildx/util/dockerutil"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/moby/buildkit/client"
)

// calls are the targets that are not built but asked something: by --call and
// --check, or by the call attribute of the target.
type calls struct {
	def definition
	// by target. A name alone where the flags do not say how to print.
	by map[string]*buildflags.CallFunc
	// asJSON prints one document for all.
	asJSON bool
}

func (r bakeReader) calls(def definition) (calls, error) {
	flag, err := buildflags.ParseCallFunc(r.str("call"))
	if err != nil {
		return calls{}, usage("call", err)
	}
	out := calls{def: def, by: map[string]*buildflags.CallFunc{}, asJSON: flag != nil && flag.Format == "json"}
	for name, o := range def.options {
		if o.CallFunc == nil {
			continue
		}
		f, err := buildflags.ParseCallFunc(o.CallFunc.Name)
		if err != nil {
			return calls{}, fmt.Errorf("target %s: %w", name, err)
		}
		if o.CallFunc = nil; f != nil {
			o.CallFunc = &buildx.CallFunc{Name: f.Name}
			out.by[name] = &buildflags.CallFunc{Name: f.Name}
			if flag != nil {
				out.by[name].Format, out.by[name].IgnoreStatus = flag.Format, flag.IgnoreStatus
			}
		}
		def.options[name] = o
	}
	return out, nil
}

// HasCalls reports whether some target is to be asked rather than built.
func (b *Bake) HasCalls() bool { return len(b.calls.by) > 0 }

// Answers are what targets said.
type Answers struct {
	calls
	asked     map[string]buildx.Options
	responses map[string]*client.SolveResponse
}

// Ask has nodes answer what targets are to be asked. Nothing is written: buildx
// 0.38 hands the outputs of such targets to BuildKit, which then exports an empty
// image, and with a pushing output moves the tag to it.
func (c *Command) Ask(ctx context.Context, b *Bake, nodes NodeLister, w progress.Writer) (*Answers, error) {
	list, err := nodes.BuilderNodes(ctx)
	if err != nil {
		return nil, err
	}
	a := &Answers{calls: b.calls, asked: b.calls.options()}
	a.responses, err = buildx.Build(ctx, list, a.asked, dockerutil.NewClient(c.cli), confutil.NewConfig(c.cli), w, nil)
	return a, exitError(err)
}

// options are the targets that are asked, and those that their contexts name.
func (c calls) options() map[string]buildx.Options {
	out := map[string]buildx.Options{}
	add := func(name string, o buildx.Options) {
		if o.Exports = nil; o.CallFunc == nil {
			o.Exports = []client.ExportEntry{{Type: "cacheonly"}}
		}
		out[name] = o
	}
	for name := range c.by {
		add(name, c.def.options[name])
	}
	for name := range c.by {
		_ = collectLinks(c.def.options[name], c.def.options, map[string]bool{name: true}, add)
	}
	return out
}

// Print writes the answers as buildx does, by name. The error is an [*ExitError]
// without text when an answer asks for an exit code.
func (a *Answers) Print(w io.Writer) error {
	if a.asJSON {
		return a.printJSON(w)
	}
	code := 0
	for i, name := range slices.Sorted(maps.Keys(a.by)) {
		if i > 0 {
			_, _ = fmt.Fprintln(w)
		}
		_, _ = fmt.Fprintln(w, name)
		if text := a.def.targets[name].Description; text != "" {
			_, _ = fmt.Fprintln(w, text)
		}
		_, _ = fmt.Fprintln(w)
		own, err := a.print(w, name)
		if err != nil {
			_, _ = fmt.Fprintf(w, "error: %s\n", redact.Text(err.Error()))
		}
		code = worse(code, own, err)
	}
	return ended(code)
}

// worse is the exit code after one more answer: that of an error, else the first.
func worse(code, own int, err error) int {
	switch {
	case err != nil:
		return 1
	case code == 0:
		return own
	}
	return code
}

func ended(code int) error {
	if code == 0 {
		return nil
	}
	return &ExitError{Code: code}
}

func (a *Answers) print(w io.Writer, name string) (int, error) {
	var res map[string]string
	if r := a.responses[name]; r != nil {
		res = r.ExporterResponse
	}
	inputs := a.asked[name].Inputs
	return printCall(w, &Spec{Call: a.by[name]}, res, &inputs)
}

// printJSON writes one document: groups, and targets with their definition and
// the answer under the name of the call.
func (a *Answers) printJSON(w io.Writer) error {
	code := 0
	targets := map[string]map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(a.def.targets)) {
		targets[name] = map[string]any{"build": a.def.targets[name]}
		call := a.by[name]
		if call == nil {
			continue
		}
		answer, own, err := a.object(name)
		code = worse(code, own, err)
		key := call.Name
		if key == "lint" {
			key = "check"
		}
		targets[name][key] = answer
	}
	b, err := json.MarshalIndent(struct {
		Group  map[string]*bake.Group    `json:"group,omitempty"`
		Target map[string]map[string]any `json:"target"`
	}{a.def.groups, targets}, "", "  ")
	if err != nil {
		return fmt.Errorf("answers: %w", err)
	}
	if _, err := fmt.Fprintln(w, string(b)); err != nil {
		return err
	}
	return ended(code)
}

// object is one answer as a JSON object. What is none is a member named for the
// call.
func (a *Answers) object(name string) (answer map[string]any, code int, err error) {
	var b bytes.Buffer
	answer = map[string]any{}
	code, err = a.print(&b, name)
	if err != nil {
		answer["error"] = redact.Text(err.Error())
	}
	members := map[string]*json.RawMessage{}
	if uerr := json.Unmarshal(b.Bytes(), &members); uerr != nil && b.Len() > 0 {
		answer[a.by[name].Name] = b.String()
	}
	for k, v := range members {
		answer[k] = v
	}
	return answer, code, err
}
