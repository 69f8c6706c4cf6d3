package buildkit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/util/cobrautil"
	"github.com/docker/cli/cli"
	"github.com/docker/cli/cli/command"
	"github.com/moby/buildkit/util/progress/progressui"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestExitCodesAreBuildxs(t *testing.T) {
	for _, tc := range []struct {
		err  error
		code int
		text string
	}{
		{errors.New("x"), 1, "x"},
		{fmt.Errorf("y: %w", context.Canceled), 130, "y: context canceled"},
		{status.Error(codes.Internal, "z"), 100, "rpc error: code = Internal desc = z"},
		{status.Error(codes.ResourceExhausted, "z"), 102, "rpc error: code = ResourceExhausted desc = z"},
		{status.Error(codes.Canceled, "z"), 130, "rpc error: code = Canceled desc = z"},
		{cobrautil.ExitCodeError(3), 3, "exit code 3"},
		{cli.StatusError{StatusCode: 5, Status: "s"}, 5, "s"},
		{cli.StatusError{Status: "s"}, 1, "s"},
	} {
		var got *ExitError
		if err := exitError(tc.err); !errors.As(err, &got) || got.Code != tc.code || got.Error() != tc.text {
			t.Errorf("%v: %+v", tc.err, got)
		}
	}
	if exitError(nil) != nil {
		t.Error("success became an error")
	}
	usage := &UsageError{Reason: "r"}
	if exitError(usage) != usage {
		t.Error("a usage error was wrapped")
	}
}

// instance is a buildx instance with one node, as a user made it.
type instance struct {
	name string
	cli  *command.DockerCli
	out  bytes.Buffer
}

func newInstance(t *testing.T) *instance {
	t.Helper()
	l := startLocal(t, t.Context(), localOptions(t))
	i := &instance{name: "one"}
	i.cli = flagCLI(t, "", &i.out)
	root := newBuildxRoot(i.cli)
	root.PersistentPreRunE = nil // it would take the signals of the test
	root.SetArgs([]string{"create", "--name", i.name, "--driver", "remote", l.Endpoint()})
	if err := root.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	i.out.Reset()
	return i
}

func (i *instance) BuilderNodes(ctx context.Context) ([]builder.Node, error) {
	b, err := builder.New(i.cli, builder.WithName(i.name))
	if err != nil {
		return nil, err
	}
	return b.LoadNodes(ctx)
}

// run is the flow of a command for a build that pushes nothing.
func (i *instance) run(t *testing.T, contextPath string, args ...string) (stdout, log string, err error) {
	t.Helper()
	i.out.Reset()
	c := parsed(t, i.cli, args...)
	spec, err := c.ReadSpec(contextPath, envOf())
	if err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	p, err := NewProgress(t.Context(), &progress, spec.Progress, "x")
	if err != nil {
		t.Fatal(err)
	}
	err = c.Plain(t.Context(), spec, i, p)
	return i.out.String(), progress.String(), err
}

func dockerfile(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	writeFileT(t, filepath.Join(dir, "Dockerfile"), text)
	return dir
}

func readFileT(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestPlainOnNodes(t *testing.T) {
	i := newInstance(t)
	dir := dockerfile(t, "FROM scratch AS first\nCOPY Dockerfile /d\n")
	out := t.TempDir()
	t.Run("quiet prints the id that the files have", func(t *testing.T) { testQuiet(t, i, dir, out) })
	t.Run("a call prints its answer", func(t *testing.T) { testCall(t, i, dir) })
	t.Run("a check that finds something fails silently", func(t *testing.T) { testCheck(t, i) })
	t.Run("a failure leaves no id file and is explained", func(t *testing.T) { testFailure(t, i, out) })
	t.Run("outputs beside a pushed one", func(t *testing.T) { testPlainOutputs(t, i, dir) })
	t.Run("buildx itself", func(t *testing.T) { testRun(t, i, dir) })
}

func testQuiet(t *testing.T, i *instance, dir, out string) {
	iid, meta := filepath.Join(out, "iid"), filepath.Join(out, "meta")
	stdout, log, err := i.run(t, dir, "-q", "-t", "a/b:1", "-o", "type=oci,dest="+out+"/image.tar",
		"--provenance=false", "--iidfile", iid, "--metadata-file", meta)
	if err != nil {
		t.Fatal(err)
	}
	id := strings.TrimSuffix(stdout, "\n")
	if !strings.HasPrefix(id, "sha256:") || log != "" || readFileT(t, iid) != id {
		t.Errorf("printed %q, showed %q, iidfile %q", stdout, log, readFileT(t, iid))
	}
	var m map[string]any
	if err := json.Unmarshal([]byte(readFileT(t, meta)), &m); err != nil {
		t.Fatal(err)
	}
	if m["containerimage.config.digest"] != id || m["image.name"] != "docker.io/a/b:1" && m["image.name"] != "a/b:1" {
		t.Errorf("metadata %v", m)
	}
	if st, err := os.Stat(out + "/image.tar"); err != nil || st.Size() == 0 {
		t.Errorf("output: %v, %v", st, err)
	}
}

func testCall(t *testing.T, i *instance, dir string) {
	stdout, _, err := i.run(t, dir, "--check", "--progress=none")
	if err != nil || stdout != "Check complete, no warnings found.\n" {
		t.Errorf("printed %q, %v", stdout, err)
	}
	stdout, _, err = i.run(t, dir, "--call=targets", "--progress=none")
	if err != nil || !strings.Contains(stdout, "first (default)") {
		t.Errorf("printed %q, %v", stdout, err)
	}
	stdout, _, err = i.run(t, dir, "--call=outline,format=json", "--progress=none")
	if err != nil || !json.Valid([]byte(stdout)) {
		t.Errorf("printed %q, %v", stdout, err)
	}
}

func testCheck(t *testing.T, i *instance) {
	stdout, _, err := i.run(t, dockerfile(t, "from scratch\nCOPY Dockerfile /d\n"), "--check", "--progress=none")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || exit.Err != nil {
		t.Errorf("error is %#v", err)
	}
	if !strings.HasPrefix(stdout, "Check complete, 1 warning has been found!") || !strings.Contains(stdout, "Dockerfile:1") {
		t.Errorf("printed %q", stdout)
	}
}

func testFailure(t *testing.T, i *instance, out string) {
	iid := filepath.Join(out, "stale")
	writeFileT(t, iid, "old")
	_, log, err := i.run(t, dockerfile(t, "FROM scratch\nCOPY missing /\n"), "--iidfile", iid, "--progress=plain")
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 1 || !strings.Contains(log, "ERROR: ") {
		t.Errorf("error is %v, showed\n%s", err, log)
	}
	if _, err := os.Stat(iid); err == nil {
		t.Error("the id file of an earlier run is still there")
	}
	var text bytes.Buffer
	Explain(&text, err)
	if !strings.Contains(text.String(), ">>> COPY missing /") {
		t.Errorf("explained with %q", text.String())
	}
}

func testPlainOutputs(t *testing.T, i *instance, dir string) {
	files := filepath.Join(t.TempDir(), "files")
	c := parsed(t, i.cli, "--push", "-t", "127.0.0.1:1/a:1", "-o", "type=registry", "-o", files)
	spec, err := c.ReadSpec(dir, envOf())
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProgress(t.Context(), io.Discard, progressui.QuietMode, "")
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(c.PlainOutputs(t.Context(), spec, i, p.Writer()), p.Wait())
	if err != nil {
		t.Fatal(err) // nothing listens on that registry: it was not pushed to
	}
	if got := readFileT(t, filepath.Join(files, "d")); !strings.HasPrefix(got, "FROM scratch") {
		t.Errorf("output has %q", got)
	}
}

// captured runs f with the process's streams, which buildx writes to, in files.
func captured(t *testing.T, f func() error) (stdout, stderr string, err error) {
	t.Helper()
	o, e := os.Stdout, os.Stderr
	defer func() { os.Stdout, os.Stderr = o, e }()
	for _, f := range []**os.File{&os.Stdout, &os.Stderr} {
		if *f, err = os.CreateTemp(t.TempDir(), ""); err != nil {
			t.Fatal(err)
		}
	}
	err = f()
	stdout, stderr = readFileT(t, os.Stdout.Name()), readFileT(t, os.Stderr.Name())
	return stdout, stderr, errors.Join(err, os.Stdout.Close(), os.Stderr.Close())
}

func testRun(t *testing.T, i *instance, dir string) {
	files := filepath.Join(t.TempDir(), "files")
	iid := filepath.Join(t.TempDir(), "iid")
	stdout, _, err := captured(t, func() error {
		return parsed(t, i.cli, "--builder", i.name, "-q", "-o", "type=image", "--iidfile", iid).Run(t.Context(), dir)
	})
	if err != nil || !strings.HasPrefix(stdout, "sha256:") || stdout != readFileT(t, iid)+"\n" {
		t.Errorf("printed %q, %v", stdout, err)
	}
	_, stderr, err := captured(t, func() error {
		return parsed(t, i.cli, "--builder", i.name, "--progress=plain", "-o", files, "-m", "1g").Run(t.Context(), dir)
	})
	if err != nil || !strings.Contains(stderr, `building with "one" instance`) || !strings.HasPrefix(readFileT(t, files+"/d"), "FROM scratch") {
		t.Errorf("showed %q, %v", stderr, err)
	}
	// buildx alone moves the tag to an empty image here.
	i.out.Reset()
	reg := startRegistry(t)
	_, _, err = captured(t, func() error {
		return parsed(t, i.cli, "--builder", i.name, "--check", "--push", "-t", reg.host+"/a:1").Run(t.Context(), dir)
	})
	if err != nil || i.out.String() != "Check complete, no warnings found.\n" || len(reg.manifestWrites()) != 0 {
		t.Errorf("printed %q, wrote %v, %v", i.out.String(), reg.manifestWrites(), err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = captured(t, func() error { return parsed(t, i.cli, "--builder", i.name).Run(ctx, dir) })
	var exit *ExitError
	if !errors.As(err, &exit) || exit.Code != 130 {
		t.Errorf("cancelled: %v", err)
	}
}
