package ref_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/ref"
)

func TestParseLocationTellsLayoutsFromRegistries(t *testing.T) {
	hub := func(repository, tag string) ref.Location {
		return ref.Location{Reference: ref.Reference{Host: "docker.io", Repository: repository, Tag: tag}}
	}
	for name, want := range map[string]ref.Location{
		"oci:dir":                     {Transport: ref.OCILayout, Path: "dir"},
		"oci:dir:1.0":                 {Transport: ref.OCILayout, Path: "dir", Tag: "1.0"},
		"oci:/abs/dir:v1":             {Transport: ref.OCILayout, Path: "/abs/dir", Tag: "v1"},
		"oci:./a:b/c":                 {Transport: ref.OCILayout, Path: "./a:b/c"},
		"oci:./a:b/c:t":               {Transport: ref.OCILayout, Path: "./a:b/c", Tag: "t"},
		`oci:C:\layouts\app`:          {Transport: ref.OCILayout, Path: `C:\layouts\app`},
		"oci:5000":                    {Transport: ref.OCILayout, Path: "5000"},
		"oci:./5000/app":              {Transport: ref.OCILayout, Path: "./5000/app"},
		"oci:dir@" + sha256:           {Transport: ref.OCILayout, Path: "dir", Tag: sha256},
		"oci:a@b/dir:1":               {Transport: ref.OCILayout, Path: "a@b/dir", Tag: "1"},
		"oci-layout:///abs/dir:1":     {Transport: ref.OCILayout, Path: "/abs/dir", Tag: "1"},
		"oci-layout://5000/app":       {Transport: ref.OCILayout, Path: "5000/app"},
		"oci-layout://d@" + sha256:    {Transport: ref.OCILayout, Path: "d", Tag: sha256},
		"oci-archive:image.tar":       {Transport: ref.OCIArchive, Path: "image.tar"},
		"oci-archive:/t/image.tar:v2": {Transport: ref.OCIArchive, Path: "/t/image.tar", Tag: "v2"},
		"docker-archive:app.tar":      {Transport: ref.DockerArchive, Path: "app.tar"},
		"docker-archive:/t/a.tar:r.example:5000/app:1": {Transport: ref.DockerArchive, Path: "/t/a.tar", Tag: "r.example:5000/app:1"},
		"docker-archive:a.tar:" + sha256:               {Transport: ref.DockerArchive, Path: "a.tar", Tag: sha256},
		"docker-archive:a.tar:@1":                      {Transport: ref.DockerArchive, Path: "a.tar", Tag: "@1"},
		`docker-archive:C:\images\a.tar:app:1`:         {Transport: ref.DockerArchive, Path: `C:\images\a.tar`, Tag: "app:1"},
		"docker-daemon:app:1":                          {Transport: ref.DockerDaemon, Path: "app:1"},
		"docker-daemon:r.example:5000/app":             {Transport: ref.DockerDaemon, Path: "r.example:5000/app"},
		"docker-daemon:" + sha256[7:]:                  {Transport: ref.DockerDaemon, Path: sha256[7:]},
		"docker-daemon:53e137afba98":                   {Transport: ref.DockerDaemon, Path: "53e137afba98"},
		"docker-daemon:sha256:53e137afba98":            {Transport: ref.DockerDaemon, Path: "sha256:53e137afba98"},
		"docker-archive:a.tar:" + sha256[7:]:           {Transport: ref.DockerArchive, Path: "a.tar", Tag: sha256[7:]},
		"docker-daemon:" + sha256:                      {Transport: ref.DockerDaemon, Path: sha256},
		"oci:5000/app":                                 {Reference: ref.Reference{Host: "oci:5000", Repository: "app"}},
		"oci/app:1":                                    hub("oci/app", "1"),
		"busybox":                                      hub("library/busybox", ""),
	} {
		got, err := ref.ParseLocation(name)
		if err != nil {
			t.Errorf("ParseLocation(%q): %v", name, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParseLocation(%q) (-want +got):\n%s", name, diff)
		}
		if again, err := ref.ParseLocation(got.String()); err != nil || again != got {
			t.Errorf("%q is written %q, which reads as %+v, %v", name, got, again, err)
		}
	}
}

func TestParseLocationRefusesHalfNames(t *testing.T) {
	for _, name := range []string{
		"", "oci:", "oci-archive:", "oci-layout://", "oci:dir:", "oci-archive:a.tar:",
		"oci:dir@sha256:short", "oci:dir@sha256:", "http://r.example/a", "r.example/A",
		"docker-archive:", "docker-archive::app", "docker-archive:a.tar:", "docker-daemon:", "docker-daemon:App", "docker-daemon:a:",
	} {
		var e *ref.Error
		if l, err := ref.ParseLocation(name); !errors.As(err, &e) || e.Name != name {
			t.Errorf("ParseLocation(%q) = %+v, %v; want an *Error that quotes it", name, l, err)
		}
	}
}

func FuzzParseLocation(f *testing.F) {
	for _, s := range []string{
		"oci:dir:tag", "oci:5000/app", "oci-layout://5000/a:b", "oci-archive:x@" + sha256, "oci:a:b:c", "oci:@sha256:x", "busybox", "oci:::",
		"docker-archive:a:b:c", "docker-archive:c:/x:@0", "docker-daemon:a@" + sha256,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := ref.ParseLocation(s)
		if err != nil {
			return
		}
		if again, err := ref.ParseLocation(l.String()); err != nil || again != l {
			t.Fatalf("ParseLocation(%q) = %+v, but its String %q reads as %+v, %v", s, l, l, again, err)
		}
	})
}

// TestForeignTransportsAreNoImages: dir:x would be docker.io/library/dir:x.
func TestForeignTransportsAreNoImages(t *testing.T) {
	for _, name := range []string{"dir:x", "dir:/x", "containers-storage:a/b:1", "docker:/x", "docker:./x", "ocidir:/srv/x", "oci-dir:x"} {
		var e *ref.Error
		if l, err := ref.ParseLocation(name); !errors.As(err, &e) || !strings.Contains(e.Reason, "oci-archive:FILE") {
			t.Errorf("ParseLocation(%q) = %+v, %v; want an *Error with what there is", name, l, err)
		}
	}
	for _, name := range []string{"docker:dind", "busybox:1", "dir:5000/app:1", "dir.example/x", "docker:5000/app", "team/dir:x", "dir"} {
		if l, err := ref.ParseLocation(name); err != nil || l.Transport != ref.Registry {
			t.Errorf("ParseLocation(%q) = %+v, %v; want a reference", name, l, err)
		}
	}
}
