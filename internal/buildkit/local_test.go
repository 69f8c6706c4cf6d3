package buildkit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func programs(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/false\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestMissingToolsAreNamedWithWhereAndHow(t *testing.T) {
	empty, bk := t.TempDir(), programs(t, "buildkitd")
	for name, tc := range map[string]struct {
		o      LocalOptions
		tool   string
		looked []string
	}{
		"nothing anywhere":       {LocalOptions{}, "buildkitd", nil},
		"empty directory":        {LocalOptions{Path: empty}, "buildkitd", []string{empty + "/buildkitd"}},
		"named one is not there": {LocalOptions{Buildkitd: empty + "/mine", Path: bk}, "buildkitd", []string{empty + "/mine"}},
		"no runtime": {LocalOptions{Beside: bk, Path: empty}, "runc", []string{
			bk + "/buildkit-runc", empty + "/buildkit-runc", bk + "/runc", empty + "/runc", bk + "/crun", empty + "/crun"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := findTools(tc.o)
			var got *MissingToolError
			if !errors.As(err, &got) || got.Tool != tc.tool {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(tc.looked, got.Looked); diff != "" {
				t.Errorf("looked (-want +got):\n%s", diff)
			}
			if got.Install == "" || !strings.HasPrefix(err.Error(), tc.tool+": not found") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestToolsAreFoundInOrder(t *testing.T) {
	beside, one := programs(t, "buildkitd", "runc"), programs(t, "buildkitd", "buildkit-runc")
	crun := programs(t, "buildkitd", "crun")
	if err := os.Mkdir(filepath.Join(crun, "runc"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		o               LocalOptions
		buildkitd, runc string
	}{
		{LocalOptions{Beside: beside, Path: one}, beside + "/buildkitd", one + "/buildkit-runc"},
		{LocalOptions{Path: ":" + beside + ":" + one}, beside + "/buildkitd", one + "/buildkit-runc"},
		{LocalOptions{Buildkitd: beside + "/buildkitd"}, beside + "/buildkitd", beside + "/runc"},
		{LocalOptions{Path: crun}, crun + "/buildkitd", crun + "/crun"},
	} {
		buildkitd, runc, err := findTools(tc.o)
		if err != nil || buildkitd != tc.buildkitd || runc != tc.runc {
			t.Errorf("%+v: %s, %s, %v", tc.o, buildkitd, runc, err)
		}
	}
}

func TestHostsThatCannotStartBuildkitdAreTold(t *testing.T) {
	for _, tc := range []struct {
		goos string
		uid  int
		want string
	}{
		{"linux", 0, ""},
		{"linux", 1000, "local buildkitd: needs root, this is user 1000: start a rootless one with " +
			"\"rootlesskit buildkitd --addr unix://$XDG_RUNTIME_DIR/buildkit/buildkitd.sock\" and name it with --node"},
		{"darwin", 501, "local buildkitd: runs on Linux only: name a node with --node or --builder"},
	} {
		err := checkHost(tc.goos, tc.uid)
		var host *HostError
		if tc.want == "" && err != nil || tc.want != "" && (!errors.As(err, &host) || err.Error() != tc.want) {
			t.Errorf("%s, user %d: %v", tc.goos, tc.uid, err)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var all strings.Builder
	tl := &tail{log: &all}
	for range 3 {
		_, _ = tl.Write([]byte(strings.Repeat("x", tailSize-1)))
	}
	_, _ = tl.Write([]byte("end"))
	if got := tl.String(); len(got) != tailSize || !strings.HasSuffix(got, "xend") {
		t.Errorf("tail has %d bytes, ends %q", len(got), got[len(got)-4:])
	}
	if all.Len() != 3*(tailSize-1)+3 {
		t.Errorf("log got %d bytes", all.Len())
	}
}
