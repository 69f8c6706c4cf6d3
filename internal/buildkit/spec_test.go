package buildkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/util/progress/progressui"
)

const noFiles = "FROM scratch\n"

// contextDir is a build context with one Dockerfile.
func contextDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	writeFileT(t, filepath.Join(dir, "Dockerfile"), noFiles)
	return dir
}

func writeFileT(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// envOf looks variables up in pairs K=V.
func envOf(pairs ...string) func(string) (string, bool) {
	return func(key string) (string, bool) {
		for _, p := range pairs {
			if k, v, _ := strings.Cut(p, "="); k == key {
				return v, true
			}
		}
		return "", false
	}
}

func readSpec(t *testing.T, args ...string) (*Spec, error) {
	t.Helper()
	return parsed(t, flagCLI(t, "", nil), args...).ReadSpec(contextDir(t), envOf())
}

func mustSpec(t *testing.T, args ...string) *Spec {
	t.Helper()
	s, err := readSpec(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestPushingOutputIsTakenApart(t *testing.T) {
	arm := oci.Platform{OS: "linux", Architecture: "arm64"}
	type push struct {
		Push, ByDigest bool
		Names          []string
		Image, Index   map[string]string
		Descriptors    []DescriptorAnnotation
		Others         []string
	}
	for name, tc := range map[string]struct {
		args []string
		want push
	}{
		"nothing": {[]string{"-t", "a/b:1"}, push{}},
		"push": {[]string{"-t", "a/b:1", "--push"}, push{
			Push: true, Names: []string{"a/b:1"}, Image: map[string]string{"unpack": "false"}}},
		"registry output with a name": {[]string{"-o", "type=registry,name=a/b:1,compression=zstd"}, push{
			Push: true, Names: []string{"a/b:1"}, Image: map[string]string{"unpack": "false", "compression": "zstd"}}},
		"tags win over the name": {[]string{"-t", "a/b:2", "-t", "c/d:2", "-o", "type=image,name=a/b:1,push=true"}, push{
			Push: true, Names: []string{"a/b:2", "c/d:2"}, Image: map[string]string{}}},
		"one name written twice": {[]string{"--push", "-t", "busybox", "-t", "docker.io/library/busybox:latest"}, push{
			Push: true, Names: []string{"busybox"}, Image: map[string]string{"unpack": "false"}}},
		"several names in one output": {[]string{"-o", `type=image,"name=a/b:1,c/d:1",push=true`}, push{
			Push: true, Names: []string{"a/b:1", "c/d:1"}, Image: map[string]string{}}},
		"two outputs with their names": {[]string{"-o", "type=registry,name=a/b:1", "-o", "type=registry,name=c/d:1"}, push{
			Push: true, Names: []string{"a/b:1", "c/d:1"}, Image: map[string]string{"unpack": "false"}}},
		"by digest": {[]string{"-o", "type=image,name=a/b,push=true,push-by-digest=true,name-canonical=true"}, push{
			Push: true, ByDigest: true, Names: []string{"a/b"}, Image: map[string]string{}}},
		"not pushed": {[]string{"-o", "type=image,name=a/b:1"}, push{Others: []string{"image"}}},
		"push=false": {[]string{"-o", "type=image,name=a/b:1,push=false"}, push{Others: []string{"image"}}},
		"push and load": {[]string{"-t", "a/b:1", "--push", "--load"}, push{
			Push: true, Names: []string{"a/b:1"}, Image: map[string]string{"unpack": "false"}, Others: []string{"docker"}}},
		"push beside an image output": {[]string{"-t", "a/b:1", "--push", "-o", "type=image,unpack=true"}, push{
			Push: true, Names: []string{"a/b:1"}, Image: map[string]string{"unpack": "true"}}},
		"annotations go where they belong": {[]string{"-t", "a/b:1", "--push",
			"--annotation", "plain=p", "--annotation", "index:i=1", "--annotation", "manifest[linux/arm64]:m=2",
			"--annotation", "manifest-descriptor[linux/arm64]:d=3", "--annotation", "manifest-descriptor:e=4"}, push{
			Push: true, Names: []string{"a/b:1"},
			Image:       map[string]string{"unpack": "false", "annotation.plain": "p", "annotation-manifest[linux/arm64].m": "2"},
			Index:       map[string]string{"i": "1"},
			Descriptors: []DescriptorAnnotation{{Key: "e", Value: "4"}, {Platform: &arm, Key: "d", Value: "3"}}}},
		"annotations of the output": {[]string{"-o", "type=registry,name=a/b:1,annotation-index.i=1,annotation.m=2"}, push{
			Push: true, Names: []string{"a/b:1"},
			Image: map[string]string{"unpack": "false", "annotation.m": "2"}, Index: map[string]string{"i": "1"}}},
		"a call pushes nothing": {[]string{"-t", "a/b:1", "--push", "--check"}, push{Others: []string{"image"}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSpec(t, tc.args...)
			got := push{s.Push, s.PushByDigest, s.Names, s.Image, s.IndexAnnotations, s.DescriptorAnnotations, types(s.Others)}
			if tc.want.Push && tc.want.Index == nil {
				tc.want.Index = map[string]string{}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func types(entries []client.ExportEntry) []string {
	var out []string
	for _, e := range entries {
		out = append(out, e.Type)
	}
	return out
}

// The docker driver refuses index annotations; the node makes no index here.
func TestIndexAnnotationsAreNotAskedOfTheNode(t *testing.T) {
	s := mustSpec(t, "-t", "a/b:1", "--push", "--annotation", "index:i=1", "--annotation", "m=2")
	if len(s.Options.Annotations) != 1 || len(s.Annotations) != 2 {
		t.Errorf("options have %v, the spec %v", s.Options.Annotations, s.Annotations)
	}
}

func TestPlatforms(t *testing.T) {
	host := mustSpec(t, "--platform", "local").Platforms
	if len(host) != 1 || host[0].OS == "" || host[0].Architecture == "" {
		t.Errorf("local is %v", host)
	}
	s := mustSpec(t, "--platform", "linux/amd64,linux/arm64/v8", "--platform", "linux/arm64", "--platform", "linux/loong64")
	want := []oci.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}, {OS: "linux", Architecture: "loong64"}}
	if diff := cmp.Diff(want, s.Platforms); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestArgumentsReadTheEnvironmentGiven(t *testing.T) {
	c := parsed(t, flagCLI(t, "", nil), "--build-arg", "A=1", "--build-arg", "B", "--build-arg", "MISSING", "--label", "l", "--label", "k=v=w")
	s, err := c.ReadSpec(contextDir(t), envOf("B=2", "SOURCE_DATE_EPOCH=7"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"A": "1", "B": "2", "SOURCE_DATE_EPOCH": "7"}, s.Options.BuildArgs); diff != "" {
		t.Errorf("build arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"l": "", "k": "v=w"}, s.Options.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

func TestAttestationsOverride(t *testing.T) {
	mode := "type=provenance,mode=max"
	s := mustSpec(t, "--provenance", "mode=max", "--sbom", "false")
	if diff := cmp.Diff(map[string]*string{"provenance": &mode, "sbom": nil}, s.Attests); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLimitsOfHiddenFlagsArrive(t *testing.T) {
	s := mustSpec(t, "-m", "1g", "--cpu-quota", "5", "--resource", "cpuset-cpus=0-1", "--resource", "cpu-quota=6", "--shm-size", "64m", "--ulimit", "nofile=1:2")
	r := s.Options.ResourceLimits
	if r.Memory.Value() != 1<<30 || r.CPUQuota != 6 || r.CPUSetCPUs != "0-1" {
		t.Errorf("limits: %+v", r)
	}
	if got := s.Options.ShmSize.Value(); got != 64<<20 {
		t.Errorf("shm-size %d", got)
	}
	if got := s.Options.Ulimits.GetList(); len(got) != 1 || got[0].String() != "nofile=1:2" {
		t.Errorf("ulimits %v", got)
	}
}

func TestValuesAreNotTakenForCSV(t *testing.T) {
	arg := "K=a,\"b\"\r\nc"
	if got := mustSpec(t, "--build-arg", arg).Options.BuildArgs["K"]; got != "a,\"b\"\r\nc" {
		t.Errorf("build argument became %q", got)
	}
}

func TestDisplayMode(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		env   string
		mode  progressui.DisplayMode
		quiet bool
	}{
		{nil, "", progressui.AutoMode, false},
		{nil, "BUILDKIT_PROGRESS=plain", progressui.PlainMode, false},
		{[]string{"--progress=tty"}, "BUILDKIT_PROGRESS=plain", progressui.TtyMode, false},
		{[]string{"-q"}, "BUILDKIT_PROGRESS=plain", progressui.QuietMode, true},
		{[]string{"--progress=quiet"}, "", progressui.QuietMode, true},
		{[]string{"--progress=none"}, "", progressui.QuietMode, false},
		{[]string{"--progress=rawjson"}, "", progressui.RawJSONMode, false},
	} {
		s, err := parsed(t, flagCLI(t, "", nil), tc.args...).ReadSpec(contextDir(t), envOf(tc.env))
		if err != nil {
			t.Fatal(err)
		}
		if s.Progress != tc.mode || s.Quiet != tc.quiet {
			t.Errorf("%v %s: mode %q, quiet %v", tc.args, tc.env, s.Progress, s.Quiet)
		}
	}
}

func TestProvenanceIsFetchedForTheMetadataFileOnly(t *testing.T) {
	for _, tc := range []struct {
		args []string
		env  string
		want string
	}{
		{nil, "", "disabled"},
		{[]string{"--metadata-file", "m"}, "", "min"},
		{[]string{"--metadata-file", "m"}, "BUILDX_METADATA_PROVENANCE=max", "max"},
		{[]string{"--metadata-file", "m", "--check"}, "", "disabled"},
	} {
		s, err := parsed(t, flagCLI(t, "", nil), tc.args...).ReadSpec(contextDir(t), envOf(tc.env))
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.Options.ProvenanceResponseMode); got != tc.want {
			t.Errorf("%v %s: %s, want %s", tc.args, tc.env, got, tc.want)
		}
	}
}

func TestUsageErrorsComeBeforeAnyNode(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want UsageError
	}{
		{[]string{"--push"}, UsageError{Flag: "tag", Reason: "tag is needed when pushing to registry"}},
		{[]string{"-o", "type=registry"}, UsageError{Flag: "tag", Reason: "tag is needed when pushing to registry"}},
		{[]string{"--platform", "linux/"}, UsageError{Flag: "platform", Value: "linux/", Reason: "want os/arch or os/arch/variant"}},
		{[]string{"-t", "a/b@sha256:" + strings.Repeat("a", 64)}, UsageError{Flag: "tag", Value: "a/b@sha256:" + strings.Repeat("a", 64), Reason: "a name to publish has no digest"}},
		{[]string{"--iidfile", "i", "-o", "out"}, UsageError{Flag: "iidfile", Value: "i", Reason: "local and tar outputs have no image ID"}},
		{[]string{"--no-cache", "--no-cache-filter", "s"}, UsageError{Flag: "no-cache-filter", Reason: "cannot be used together with --no-cache"}},
		{[]string{"-q", "--progress", "plain"}, UsageError{Flag: "progress", Value: "plain", Reason: "cannot be used together with --quiet"}},
		{[]string{"--build-arg", "=secret"}, UsageError{Flag: "build-arg", Reason: "empty key, want KEY=VALUE"}},
		{[]string{"-o", "type=image,name=a/b:1,push=true,push-by-digest=true"}, UsageError{Flag: "output", Value: "a/b:1", Reason: "push-by-digest writes no tag: leave the tag out"}},
		{[]string{"-o", "type=registry,name=a/b", "-o", "type=registry,name=c/d,compression=zstd"}, UsageError{Flag: "output", Reason: "outputs that push must not differ in anything but the name: one image is published"}},
		{[]string{"-f", "missing.Dockerfile"}, UsageError{Flag: "file", Value: "missing.Dockerfile", Reason: "no such file or directory"}},
		{[]string{"-t", "a/b", "--push", "--annotation", "index:a b=c"}, UsageError{Flag: "output", Value: "annotation-index.a b", Reason: "not an annotation: the key is empty or has blanks in it"}},
		{[]string{"-f", "."}, UsageError{Flag: "file", Value: ".", Reason: "is a directory"}},
		{[]string{"--build-context", "x=missing"}, UsageError{Flag: "build-context", Value: "x=missing", Reason: "no such file or directory"}},
	} {
		_, err := readSpec(t, tc.args...)
		var got *UsageError
		if !errors.As(err, &got) || *got != tc.want {
			t.Errorf("%v:\n got %v\nwant %v", tc.args, err, &tc.want)
		}
	}
}

func TestUsageErrorsOfBuildxsParsersNameTheFlag(t *testing.T) {
	for flag, value := range map[string]string{
		"tag": "a/Upper", "platform": "linux/amd64/v1/x", "attest": "x", "output": "type=", "secret": "id", "ssh": "default=/missing",
		"allow": "everything", "cache-from": "x=", "policy": "x", "annotation": "x", "resource": "x", "progress": "loud", "call": "a,b",
	} {
		_, err := readSpec(t, "--"+flag, value)
		var got *UsageError
		if !errors.As(err, &got) || got.Flag != flag {
			t.Errorf("--%s %s: %v", flag, value, err)
		}
	}
}

func TestContextIsCheckedFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFileT(t, file, "")
	for path, want := range map[string]string{
		"":                               "the build context is missing",
		filepath.Join(dir, "nowhere"):    "nowhere\": build context: no such file or directory",
		file:                             "file\": build context: not a directory",
		dir:                              "Dockerfile\": no such file or directory",
		"https://127.0.0.1:1/ctx.tar.gz": "",
		"-":                              "",
	} {
		_, err := parsed(t, flagCLI(t, noFiles, nil)).ReadSpec(path, envOf())
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", path, err, want)
		}
	}
}

func TestLowerCaseDockerfileIsFound(t *testing.T) {
	dir := t.TempDir()
	writeFileT(t, filepath.Join(dir, "dockerfile"), noFiles)
	if _, err := parsed(t, flagCLI(t, "", nil)).ReadSpec(dir, envOf()); err != nil {
		t.Error(err)
	}
}

func TestSecretValuesStayOutOfErrors(t *testing.T) {
	_, err := readSpec(t, "--build-arg", "=hunter2")
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("error is %v", err)
	}
}

func FuzzOutputsAndAnnotations(f *testing.F) {
	for _, seed := range [][2]string{
		{"type=registry,name=a/b:1", "index:k=v"},
		{"type=image,push=true,annotation-index.k=v,annotation-x.k=v", "manifest-descriptor[linux/arm64]:k=v"},
		{"type=image,push=1,push-by-digest=t,name=\"a,b\"", "index[linux/amd64],manifest:k=v"},
		{"out", "k"},
		{"type=image,push=true,annotation-manifest[x].k=v", "bad-type:k=v"},
	} {
		f.Add(seed[0], seed[1])
	}
	dir := f.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(noFiles), 0o600); err != nil {
		f.Fatal(err)
	}
	cli, err := NewDockerCLI(nil, nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, output, annotation string) {
		s, err := parsed(t, cli, "-t", "a/b", "-o", output, "--annotation", annotation).ReadSpec(dir, envOf())
		if err != nil {
			var usage *UsageError
			if !errors.As(err, &usage) {
				t.Errorf("not a usage error: %v", err)
			}
			return
		}
		for k := range s.Image {
			if k == "name" || strings.HasPrefix(k, "push") || strings.HasPrefix(k, "annotation-index.") || strings.HasPrefix(k, "annotation-manifest-descriptor.") {
				t.Errorf("%q is left in the image's attributes", k)
			}
		}
		if s.Push && len(s.Names) != 1 {
			t.Errorf("names %v", s.Names)
		}
	})
}
