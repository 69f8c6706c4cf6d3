package cli_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
)

// docker20 is Debian's docker.io, whose "docker manifest" changes digests.
const docker20 = "/usr/bin/docker"

var _ = scriptCommands(map[string]scriptCommand{
	"docker20": needDocker20,
	"same":     same,
	"plugin":   installPlugin,
	"hosted":   hosted,
})

// docker20: sets $DOCKER to Debian's CLI of 20.10, and fails without it.
func needDocker20(k *kit, _ []string) {
	out, err := exec.Command(docker20, "--version").Output()
	if err != nil || !strings.HasPrefix(string(out), "Docker version 20.10.") {
		k.fail("%s of 20.10 is needed (apt-get install docker.io): %s %v", docker20, out, err)
	}
	k.ts.Setenv("DOCKER", docker20)
}

// same [-stderr] VERB ARGS...: runs "docker manifest" of 20.10 and "manifold
// manifest" with the same arguments, each with a configuration of its own
// ($WORK/docker, $WORK/manifold), and fails unless stdout and exit code are
// equal; with -stderr, stderr too. What the second one printed can be looked at.
func same(k *kit, args []string) {
	needDocker20(k, nil)
	withStderr := len(args) > 0 && args[0] == "-stderr"
	if withStderr {
		args = args[1:]
	}
	args = append([]string{"manifest"}, args...)
	docker := k.outcome("docker", docker20, args)
	manifold := k.outcome("manifold", "manifold", args)
	if !withStderr {
		docker.stderr, manifold.stderr = "", ""
	}
	if docker != manifold {
		k.fail("%s:\ndocker: %+v\nmanifold: %+v", strings.Join(args, " "), docker, manifold)
	}
}

type outcome struct {
	code           int
	stdout, stderr string
}

// outcome runs a program with a Docker configuration of its own.
func (k *kit) outcome(config, program string, args []string) outcome {
	dir := k.ts.MkAbs(config)
	k.ts.Check(os.MkdirAll(dir, 0o755))
	before := k.ts.Getenv("DOCKER_CONFIG")
	k.ts.Setenv("DOCKER_CONFIG", dir)
	defer k.ts.Setenv("DOCKER_CONFIG", before)
	var o outcome
	var exit *exec.ExitError
	switch err := k.ts.Exec(program, args...); {
	case errors.As(err, &exit):
		o.code = exit.ExitCode()
	default:
		k.ts.Check(err)
	}
	o.stdout, o.stderr = k.ts.ReadFile("stdout"), k.ts.ReadFile("stderr")
	return o
}

// plugin: installs docker-manifold for Docker's CLI in the home of the script.
func installPlugin(k *kit, _ []string) {
	// The folder of the test's own commands is first in PATH.
	own := filepath.SplitList(k.ts.Getenv("PATH"))[0]
	dir := filepath.Join(k.ts.Getenv("DOCKER_CONFIG"), "cli-plugins")
	k.ts.Check(os.MkdirAll(dir, 0o755))
	k.ts.Check(os.Symlink(filepath.Join(own, "docker-manifold"), filepath.Join(dir, "docker-manifold")))
}

// hosted NAME: the registry refuses an index whose children it does not have in
// the words of a hosted one, not in those of Distribution.
func hosted(k *kit, args []string) {
	if len(args) != 1 {
		k.fail("usage: hosted registry")
	}
	k.registry(args[0]).Use(registrytest.Rewriting(http.MethodPut, "/manifests/", func(a *registrytest.Answer) {
		if a.Status == http.StatusBadRequest && strings.Contains(string(a.Body), "MANIFEST_BLOB_UNKNOWN") {
			a.Body = []byte(`{"errors":[{"code":"MANIFEST_INVALID","message":"Image references a non-existent child manifest"}]}`)
		}
	}))
}
