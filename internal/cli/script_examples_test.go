package cli_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

var _ = scriptCommands(map[string]scriptCommand{"workflow": workflow, "pipeline": pipeline, "gitserver": gitserver})

// gitserver NAME DIR: serves the repositories below a folder on loopback; $NAME is
// the address, git://HOST:PORT.
func gitserver(k *kit, args []string) {
	if len(args) != 2 {
		k.fail("usage: gitserver name dir")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	k.ts.Check(err)
	k.ts.Defer(func() { _ = l.Close() })
	dir := k.ts.MkAbs(args[1])
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveGit(c, dir)
		}
	}()
	k.ts.Setenv(args[0], "git://"+l.Addr().String())
}

func serveGit(c net.Conn, dir string) {
	defer c.Close()
	cmd := exec.Command("git", "daemon", "--inetd", "--export-all", "--base-path="+dir, dir)
	cmd.Stdin, cmd.Stdout = c, c
	_ = cmd.Run() // a client that has what it wants goes away
}

// step is a step of a workflow or of a composite action.
type step struct {
	ID   string            `yaml:"id"`
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	Dir  string            `yaml:"working-directory"`
	With map[string]string `yaml:"with"`
	Env  map[string]string `yaml:"env"`
}

type job struct {
	Needs    string `yaml:"needs"`
	RunsOn   string `yaml:"runs-on"`
	Strategy struct {
		Matrix struct {
			Include []map[string]string `yaml:"include"`
		} `yaml:"matrix"`
	} `yaml:"strategy"`
	Steps []step `yaml:"steps"`
}

type action struct {
	Inputs  map[string]struct{ Default string } `yaml:"inputs"`
	Outputs map[string]struct{ Value string }   `yaml:"outputs"`
	Runs    struct{ Steps []step }              `yaml:"runs"`
}

// workflow FILE REGISTRY PROJECT RUNNER=BUILDER...: runs a GitHub workflow of the
// tree as its runners would, with a registry of the script in place of ghcr.io: each
// run step by bash, each use of this action by action.yml. PROJECT is what is
// checked out. Other actions are played: checkout, artifacts, logins, set-ups.
func workflow(k *kit, args []string) {
	if len(args) < 3 {
		k.fail("usage: workflow file registry project runner=builder...")
	}
	r := &runner{kit: k, registry: args[1], project: k.ts.MkAbs(args[2]), builders: map[string]string{}}
	for _, a := range args[3:] {
		name, builder := option(a)
		r.builders[name] = builder
	}
	text := strings.ReplaceAll(r.read(args[0]), "ghcr.io", k.registry(r.registry).Host)
	var w struct {
		Env  map[string]string `yaml:"env"`
		Jobs map[string]job    `yaml:"jobs"`
	}
	k.ts.Check(yaml.Unmarshal([]byte(text), &w))
	done := map[string]bool{"": true}
	for len(done) <= len(w.Jobs) {
		before := len(done)
		for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
			if j := w.Jobs[name]; !done[name] && done[j.Needs] {
				r.job(name, j, w.Env)
				done[name] = true
			}
		}
		if len(done) == before {
			k.fail("the jobs of %s need each other", args[0])
		}
	}
}

// runner plays the machines that run a workflow.
type runner struct {
	*kit
	registry, project string
	builders          map[string]string
	jobs              int
	// where expressions look: "matrix.platform", "steps.build.outputs.digest"
	values map[string]string
	dir    string
}

func (r *runner) read(path string) string {
	b, err := os.ReadFile(filepath.Join("../..", path))
	r.ts.Check(err)
	return string(b)
}

func (r *runner) job(name string, j job, env map[string]string) {
	matrix := j.Strategy.Matrix.Include
	if len(matrix) == 0 {
		matrix = []map[string]string{{}}
	}
	for i, entry := range matrix {
		r.jobs++
		r.dir = r.ts.MkAbs(fmt.Sprintf("job%d-%s", r.jobs, name))
		r.ts.Check(os.Mkdir(r.dir, 0o755))
		r.values = map[string]string{
			"github.repository": "team/app", "github.actor": "somebody", "github.token": "a-token", "strategy.job-index": fmt.Sprint(i),
		}
		for k, v := range entry {
			r.values["matrix."+k] = v
		}
		for k, v := range env {
			r.values["env."+k] = r.expand(v)
			r.ts.Setenv(k, r.expand(v))
		}
		r.ts.Setenv("BUILDX_BUILDER", r.builders[r.expand(j.RunsOn)])
		for _, s := range j.Steps {
			r.step(s)
		}
	}
}

func (r *runner) step(s step) {
	with := map[string]string{}
	for k, v := range s.With {
		with[k] = r.expand(v)
	}
	name, _, _ := strings.Cut(s.Uses, "@")
	switch name {
	case "":
		r.run(s)
	case "manifold-oci/manifold":
		r.action(s.ID, with)
	case "actions/checkout":
		r.ts.Check(os.CopyFS(r.dir, os.DirFS(r.project)))
	case "actions/upload-artifact":
		r.ts.Check(os.CopyFS(filepath.Join(r.ts.MkAbs("artifacts"), with["name"]), os.DirFS(filepath.Join(r.dir, with["path"]))))
	case "actions/download-artifact":
		found, err := filepath.Glob(filepath.Join(r.ts.MkAbs("artifacts"), with["pattern"]))
		r.ts.Check(err)
		for _, dir := range found {
			r.ts.Check(os.CopyFS(filepath.Join(r.dir, with["path"]), os.DirFS(dir)))
		}
	case "docker/login-action":
		if with["registry"] != r.kit.registry(r.registry).Host || with["username"] == "" || with["password"] == "" {
			r.fail("login-action: %v", with)
		}
		login(r.kit, []string{r.registry})
	case "docker/setup-buildx-action", "actions/setup-go":
	default:
		r.fail("unknown action %s", s.Uses)
	}
}

var expression = regexp.MustCompile(`\$\{\{\s*(.*?)\s*\}\}`)

func (r *runner) expand(s string) string {
	return expression.ReplaceAllStringFunc(s, func(e string) string {
		name := expression.FindStringSubmatch(e)[1]
		v, ok := r.values[name]
		if !ok {
			r.fail("%s: nobody has set it", name)
		}
		return v
	})
}

// run is a step as GitHub runs it without a shell given, and returns its outputs.
func (r *runner) run(s step) map[string]string {
	for k, v := range s.Env {
		r.ts.Setenv(k, r.expand(v))
	}
	outputs := filepath.Join(r.ts.MkAbs("."), "outputs")
	script := filepath.Join(r.ts.MkAbs("."), "step.sh")
	r.ts.Check(os.WriteFile(outputs, nil, 0o600))
	r.ts.Check(os.WriteFile(script, []byte(r.expand(s.Run)), 0o600))
	r.ts.Setenv("GITHUB_OUTPUT", outputs)
	r.ts.Setenv("GITHUB_REF_NAME", "v1.2")
	back := r.ts.MkAbs(".")
	r.ts.Check(r.ts.Chdir(filepath.Join(r.dir, s.Dir)))
	err := r.ts.Exec("bash", "-e", script)
	r.ts.Check(r.ts.Chdir(back))
	r.ts.Check(err)
	b, err := os.ReadFile(outputs)
	r.ts.Check(err)
	return parseOutputs(string(b))
}

// parseOutputs reads NAME=VALUE and NAME<<END.
func parseOutputs(text string) map[string]string {
	out := map[string]string{}
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		if name, end, ok := strings.Cut(lines[i], "<<"); ok && !strings.Contains(name, "=") {
			var value []string
			for i++; i < len(lines) && lines[i] != end; i++ {
				value = append(value, lines[i])
			}
			out[name] = strings.Join(value, "\n")
		} else if name, value, ok := strings.Cut(lines[i], "="); ok {
			out[name] = value
		}
	}
	return out
}

// action runs action.yml and gives its outputs to the step with an id.
func (r *runner) action(id string, with map[string]string) {
	var a action
	r.ts.Check(yaml.Unmarshal([]byte(r.read("action.yml")), &a))
	inputs := map[string]string{}
	for name, in := range a.Inputs {
		inputs[name] = r.expand(in.Default)
	}
	for name, v := range with {
		if _, ok := inputs[name]; !ok {
			r.fail("action.yml has no input %s", name)
		}
		inputs[name] = v
	}
	b, err := json.Marshal(inputs)
	r.ts.Check(err)
	root, err := filepath.Abs("../..")
	r.ts.Check(err)
	r.ts.Setenv("GITHUB_ACTION_PATH", root)
	r.values["toJSON(inputs)"] = string(b)
	for _, s := range a.Runs.Steps {
		for k, v := range r.run(s) {
			r.values["steps."+s.ID+".outputs."+k] = v
		}
	}
	for name, o := range a.Outputs {
		r.values["steps."+id+".outputs."+name] = r.expand(o.Value)
	}
}

// pipeline FILE PROJECT RUNNER=BUILDER...: runs a GitLab pipeline of the tree as its
// runners would: the stages in order, each job's script by bash, in a checkout of
// PROJECT that its artifacts are in.
func pipeline(k *kit, args []string) {
	if len(args) < 2 {
		k.fail("usage: pipeline file project runner=builder...")
	}
	r := &runner{kit: k, project: k.ts.MkAbs(args[1]), builders: map[string]string{}}
	for _, a := range args[2:] {
		name, builder := option(a)
		r.builders[name] = builder
	}
	var all map[string]yaml.Node
	k.ts.Check(yaml.Unmarshal([]byte(r.read(args[0])), &all))
	stages := all["stages"]
	var order []string
	k.ts.Check(stages.Decode(&order))
	r.dir = k.ts.MkAbs("checkout")
	k.ts.Check(os.CopyFS(r.dir, os.DirFS(r.project)))
	for _, stage := range order {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			node := all[name]
			if node.Kind == yaml.MappingNode && !strings.HasPrefix(name, ".") {
				r.labJob(stage, node)
			}
		}
	}
}

func (r *runner) labJob(stage string, node yaml.Node) {
	var j struct {
		Stage    string   `yaml:"stage"`
		Before   []string `yaml:"before_script"`
		Script   []string `yaml:"script"`
		Parallel struct {
			Matrix []map[string]string `yaml:"matrix"`
		} `yaml:"parallel"`
	}
	r.ts.Check(node.Decode(&j))
	if j.Stage != stage {
		return
	}
	matrix := j.Parallel.Matrix
	if len(matrix) == 0 {
		matrix = []map[string]string{{}}
	}
	for _, entry := range matrix {
		r.ts.Setenv("BUILDX_BUILDER", r.builders[entry["RUNNER"]])
		lines := append([]string{"set -eo pipefail"}, append(slices.Clone(j.Before), j.Script...)...)
		r.run(step{Env: entry, Run: strings.Join(lines, "\n")})
	}
}
