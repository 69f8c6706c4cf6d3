package cli_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// The inputs and outputs of docker/build-push-action (its action.yml of July 2026).
var (
	theirInputs = []string{
		"add-hosts", "allow", "annotations", "attests", "build-args", "build-contexts", "builder", "cache-from", "cache-to", "call",
		"cgroup-parent", "context", "file", "github-token", "labels", "load", "network", "no-cache", "no-cache-filters", "outputs",
		"platforms", "provenance", "pull", "push", "sbom", "secret-envs", "secret-files", "secrets", "shm-size", "ssh", "tags", "target", "ulimit",
	}
	theirOutputs = []string{"digest", "imageid", "metadata"}
	ownInputs    = []string{"manifold", "nodes"}
)

func TestActionHasTheNamesOfBuildPushAction(t *testing.T) {
	a := readAction(t)
	want := slices.Sorted(slices.Values(slices.Concat(theirInputs, ownInputs)))
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(a.Inputs))); diff != "" {
		t.Errorf("inputs: %s", diff)
	}
	if diff := cmp.Diff(theirOutputs, slices.Sorted(maps.Keys(a.Outputs))); diff != "" {
		t.Errorf("outputs: %s", diff)
	}
	// What a script gets that looks for it.
	for name, want := range map[string]string{"load": "false", "no-cache": "false", "pull": "false", "push": "false", "github-token": "${{ github.token }}", "context": ""} {
		if got := a.Inputs[name].Default; got != want {
			t.Errorf("%s: default %q, want %q", name, got, want)
		}
	}
}

func readAction(t *testing.T) action {
	t.Helper()
	b, err := os.ReadFile("../../action.yml")
	if err != nil {
		t.Fatal(err)
	}
	var a action
	if err := yaml.Unmarshal(b, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Every input becomes a flag that the command has.
func TestActionInputsBecomeFlags(t *testing.T) {
	inputs := map[string]string{}
	for _, name := range theirInputs {
		inputs[name] = "x-" + name
	}
	for _, name := range []string{"load", "no-cache", "pull", "push"} {
		inputs[name] = "true"
	}
	inputs["nodes"] = "x-nodes"
	inputs["secrets"] = "ID=x-secrets"
	inputs["context"] = "{{defaultContext}}:x-context"
	args := actionArgs(t, inputs, "GITHUB_REPOSITORY=o/r", "GITHUB_SHA=abc", "SHOW_SECRETS=1")
	for name, value := range inputs {
		flag := map[string]string{"load": "--load", "no-cache": "--no-cache", "pull": "--pull", "push": "--push", "context": "https://github.com/o/r.git#abc:x-context"}[name]
		if flag == "" {
			_, flag, _ = strings.Cut("="+value, "=")
		}
		if _, after, ok := strings.Cut(flag, "="); ok {
			flag = after
		}
		// A flag is not the beginning of another one.
		given := func(a string) bool {
			return a == flag || !strings.HasPrefix(flag, "--") && strings.Contains(a, flag)
		}
		if !slices.ContainsFunc(args, given) {
			t.Errorf("%s=%s went nowhere:\n%s", name, value, strings.Join(args, "\n"))
		}
	}
	reference, err := os.ReadFile("../../docs/reference/manifold_build.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range args {
		if strings.HasPrefix(a, "--") && !regexp.MustCompile(`(?m)^ +(-., )?`+a+`( |$)`).Match(reference) {
			t.Errorf("%s: no such flag", a)
		}
	}
}

// actionArgs are the arguments that scripts/action.sh gives to the program. The
// contents of secret files stand behind them with SHOW_SECRETS.
func actionArgs(t *testing.T, inputs map[string]string, env ...string) []string {
	t.Helper()
	dir := t.TempDir()
	stub := filepath.Join(dir, "manifold")
	program := "#!/bin/bash\nprintf '%s\\0' \"$@\" >" + dir + "/args\nif [ \"$SHOW_SECRETS\" ]; then for f; do case $f in id=*,src=/*) cat \"${f#*src=}\"; printf '\\0';; esac; done >>" + dir + "/args; fi\n"
	if err := os.WriteFile(stub, []byte(program), 0o755); err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"manifold": stub}
	maps.Copy(all, inputs)
	b, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("../../scripts/action.sh")
	cmd.Env = append(append(os.Environ(), "GITHUB_OUTPUT="+dir+"/out", "INPUTS="+string(b)), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got, err := os.ReadFile(dir + "/args")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(got), "\x00"), "\x00")
}

// Lists are read as that action reads them.
func TestActionReadsLists(t *testing.T) {
	for name, c := range map[string]struct {
		input, value string
		want         []string
	}{
		"lines":                      {"build-args", "A=1\r\n\n  B=2, 3  \n", []string{"--build-arg", "A=1", "--build-arg", "B=2, 3"}},
		"commas":                     {"tags", "a:1,b:2\nc:3", []string{"--tag", "a:1", "--tag", "b:2", "--tag", "c:3"}},
		"platforms are one":          {"platforms", "linux/amd64, linux/arm64\nlinux/arm/v7", []string{"--platform", "linux/amd64,linux/arm64,linux/arm/v7"}},
		"quotes hold lines":          {"labels", "\"a=b\nc\"\nd=e", []string{"--label", "a=b\nc", "--label", "d=e"}},
		"quotes hold commas":         {"allow", `"x,y",z`, []string{"--allow", "x,y", "--allow", "z"}},
		"quotes double":              {"build-args", `"J={""k"": 1}"`, []string{"--build-arg", `J={"k": 1}`}},
		"quotes within":              {"build-args", `J={"k": 1}`, []string{"--build-arg", `J={"k": 1}`}},
		"outputs keep their quotes":  {"outputs", `"type=image","name=a,b"`, []string{"--output", `"type=image","name=a,b"`}},
		"the environment's secrets":  {"secret-envs", "A=B,C=D", []string{"--secret", "id=A,env=B", "--secret", "id=C,env=D"}},
		"secrets of files":           {"secret-files", "A=./b", []string{"--secret", "id=A,src=./b"}},
		"files have no id":           {"outputs", "type=local,dest=x", []string{"--output", "type=local,dest=x", "no iidfile"}},
		"nor has a folder":           {"outputs", "out", []string{"--output", "out", "no iidfile"}},
		"what is false is not given": {"push", "false", nil},
	} {
		args := actionArgs(t, map[string]string{c.input: c.value, "context": "ctx"})
		want := append([]string{"build", "--metadata-file"}, c.want...)
		if n := len(want); want[n-1] == "no iidfile" {
			want = want[:n-1]
		} else {
			want = append(want, "--iidfile")
		}
		want = append(want, "ctx")
		temporary := func(a string) bool { return strings.HasSuffix(a, "/metadata.json") || strings.HasSuffix(a, "/iid") }
		got := slices.DeleteFunc(args, temporary)
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A secret is in no argument, a pull request is built as it would be merged, and a
// token goes to a Git context of this server only.
func TestActionContextsAndSecrets(t *testing.T) {
	env := []string{"GITHUB_REPOSITORY=o/r", "GITHUB_SHA=abc", "GITHUB_REF=refs/pull/7/merge", "GITHUB_SERVER_URL=https://ghe.test"}
	args := actionArgs(t, map[string]string{"github-token": "hidden"}, env...)
	if got, want := args[len(args)-1], "https://ghe.test/o/r.git#refs/pull/7/merge"; got != want {
		t.Errorf("context %s, want %s", got, want)
	}
	all := strings.Join(args, " ")
	if strings.Contains(all, "hidden") || !strings.Contains(all, "id=GIT_AUTH_TOKEN.ghe.test,src=/") {
		t.Errorf("token: %s", all)
	}
	all = strings.Join(actionArgs(t, map[string]string{"github-token": "hidden", "context": "."}, env...), " ")
	if strings.Contains(all, "GIT_AUTH_TOKEN") {
		t.Errorf("token for a local context: %s", all)
	}
	shown := actionArgs(t, map[string]string{"secrets": "A= b \n\"C=d\ne\"", "context": "."}, append(env, "SHOW_SECRETS=1")...)
	if diff := cmp.Diff([]string{" b ", "d\ne"}, shown[len(shown)-2:]); diff != "" {
		t.Errorf("secrets: %s", diff)
	}
}

// A runner without the program builds it, once for the job.
func TestActionBuildsTheProgram(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go":    "#!/bin/bash\n[ \"$1 $PWD\" = \"build $GITHUB_ACTION_PATH\" ] && mkdir -p \"$(dirname \"$4\")\" && cp " + dir + "/built \"$4\"\n",
		"built": "#!/bin/bash\necho \"$1\" >" + dir + "/ran\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("/bin/bash", "../../scripts/action.sh")
	cmd.Env = []string{
		"PATH=" + dir + ":/usr/bin:/bin", "INPUTS={}", "GITHUB_OUTPUT=" + dir + "/out", "GITHUB_PATH=" + dir + "/path",
		"GITHUB_ACTION_PATH=" + dir, "RUNNER_TEMP=" + dir + "/temp",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range map[string]string{"ran": "build\n", "path": dir + "/temp/manifold-bin\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, want)
		}
	}
}
