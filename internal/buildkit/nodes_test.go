package buildkit

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/docker/buildx/driver"
	"github.com/docker/buildx/store"
	"github.com/docker/buildx/store/storeutil"
	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/build"
)

// engine is a remote driver that passes for Docker Engine.
type engine struct {
	driver.Driver
	exporter bool
}

func (engine) IsMobyDriver() bool { return true }

func (e engine) Features(context.Context) (map[driver.Feature]bool, error) {
	return map[driver.Feature]bool{driver.OCIExporter: e.exporter, driver.MultiPlatform: e.exporter, driver.DirectPush: true}, nil
}

func openEngine(t *testing.T, exporter bool) *Nodes {
	t.Helper()
	f, err := ParseNodeFlag("linux/amd64=" + startNode(t, "linux/amd64"))
	if err != nil {
		t.Fatal(err)
	}
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{f}})
	n.machines[0].Driver = &driver.DriverHandle{Driver: engine{n.machines[0].Driver.Driver, exporter}}
	return n
}

func TestEngineHandsItsImageOverAndPushesNothing(t *testing.T) {
	reg := startRegistry(t)
	n := openEngine(t, true)
	spec := newSpec(t, buildContext(t, copyFile, 64), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	im := run(t, n, spec, reg)[0]
	if im.Pushed || im.Content == nil || len(reg.manifestWrites()) > 0 {
		t.Errorf("pushed %v, written %v", im.Pushed, reg.manifestWrites())
	}
	checkAttestations(t, im, reg.host+"/d/app")
	checkBlob(t, im.Content, im.Manifest.Descriptor)
}

func TestEngineThatWouldLeaveSomethingOutIsRefusedWithTheReason(t *testing.T) {
	reg := startRegistry(t)
	n := openEngine(t, false)
	spec := newSpec(t, buildContext(t, copyFile, 64), parsePlatforms(t, "linux/amd64"), reg.host+"/d/app:1")
	spec.Image = map[string]string{"annotation.a": "b"}
	_, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: reg}), build.Options{Platforms: spec.Platforms})
	var refused *DriverError
	if !errors.As(err, &refused) || refused.Driver != "remote" || refused.Reason == "" {
		t.Errorf("error %v", err)
	}
	if len(reg.manifestWrites()) > 0 {
		t.Errorf("written %v", reg.manifestWrites())
	}
}

// saveInstance writes a buildx instance as "buildx create" does.
func saveInstance(t *testing.T, name string, use bool, nodes ...store.Node) {
	t.Helper()
	cli, err := NewDockerCLI(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	txn, release, err := storeutil.GetStore(cli)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if err := txn.Save(&store.NodeGroup{Name: name, Driver: "remote", Nodes: nodes}); err != nil {
		t.Fatal(err)
	}
	if use {
		if err := txn.SetCurrent(cli.DockerEndpoint().Host, name, false, false); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNodesAreThoseOfTheUser(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("BUILDX_CONFIG", t.TempDir())
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	arm := parsePlatforms(t, "linux/arm64")
	local := func(context.Context) (string, error) { return "unix:///run/local.sock", nil }
	saveInstance(t, "farm", false,
		store.Node{Name: "farm0", Endpoint: "tcp://10.0.0.1:1"},
		store.Node{Name: "farm1", Endpoint: "ssh://me:secret@10.0.0.2", Platforms: arm})

	type node struct {
		Name, Endpoint string
		Declared       int
	}
	check := func(name string, o NodeOptions, want ...node) {
		t.Helper()
		n, err := OpenNodes(t.Context(), o)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var got []node
		for _, b := range n.Build(&Spec{}, BuildOptions{}) {
			got = append(got, node{b.Name(), b.Endpoint(), len(b.Declared())})
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if err := n.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	farm := []node{{"farm0", "tcp://10.0.0.1:1", 0}, {"farm1", "ssh://me:xxxxx@10.0.0.2", 1}}
	check("flags before a builder", NodeOptions{Builder: "farm", Nodes: []NodeFlag{{Endpoint: "unix:///run/a.sock", Platforms: arm}}},
		node{"unix:///run/a.sock", "unix:///run/a.sock", 1})
	check("builder by name", NodeOptions{Builder: "farm", Local: local}, farm...)
	check("no engine", NodeOptions{Local: local}, node{"local", "unix:///run/local.sock", 0})
	saveInstance(t, "farm", true,
		store.Node{Name: "farm0", Endpoint: "tcp://10.0.0.1:1"},
		store.Node{Name: "farm1", Endpoint: "ssh://me:secret@10.0.0.2", Platforms: arm})
	check("current builder", NodeOptions{Local: local}, farm...)
}

func TestNoNodesIsAnErrorOfTheUsersConfiguration(t *testing.T) {
	t.Setenv("DOCKER_CONFIG", t.TempDir())
	t.Setenv("BUILDX_CONFIG", t.TempDir())
	t.Setenv("DOCKER_HOST", "unix://"+filepath.Join(t.TempDir(), "none.sock"))
	broken := errors.New("no buildkitd")
	for name, o := range map[string]NodeOptions{
		"no such builder": {Builder: "none", Local: func(context.Context) (string, error) { return "unix:///x", nil }},
		"no engine":       {},
		"local fails":     {Local: func(context.Context) (string, error) { return "", broken }},
	} {
		o.Timeout = time.Second
		if _, err := OpenNodes(t.Context(), o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestNodeListsItsOwnPlatformsWhenNoneWereGiven(t *testing.T) {
	reg := startRegistry(t)
	f, err := ParseNodeFlag(startNode(t, "linux/riscv64"))
	if err != nil {
		t.Fatal(err)
	}
	n := openNodes(t, NodeOptions{Nodes: []NodeFlag{f}})
	spec := newSpec(t, buildContext(t, copyFile, 64), nil, reg.host+"/d/app:1")
	images, err := build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: reg}), build.Options{})
	if err != nil || len(images) != 1 || images[0].Platform.Architecture != "riscv64" {
		t.Fatalf("%+v, %v", images, err)
	}
	if p := images[0].Manifest.Platform; p == nil || p.Architecture != "riscv64" {
		t.Errorf("manifest is for %v", p)
	}
	_, err = build.Run(t.Context(), n.Build(spec, BuildOptions{Registry: reg}), build.Options{Platforms: parsePlatforms(t, "linux/s390x")})
	var none *build.NoNodeError
	if !errors.As(err, &none) || len(none.Nodes[f.Endpoint]) == 0 {
		t.Errorf("error %v", err)
	}
}
