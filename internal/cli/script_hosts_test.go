package cli_test

import (
	"errors"
	"os/exec"
	"path/filepath"
)

var _ = scriptCommands(map[string]scriptCommand{"hosts": hosts})

// lacking is how scripts/hosts.sh ends where a machine has not what it needs.
const lacking = 77

// hosts SCRIPT: runs a script, of the tree or by its whole path, that has hosts of
// its own, see scripts/hosts.sh. The story is skipped on a machine that lacks something.
func hosts(k *kit, args []string) {
	if len(args) != 1 {
		k.fail("usage: hosts script")
	}
	path := args[0]
	if !filepath.IsAbs(path) {
		var err error
		path, err = filepath.Abs(filepath.Join("../../scripts", path))
		k.ts.Check(err)
	}
	err := k.ts.Exec(path)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == lacking {
		k.TB.Skip(k.ts.ReadFile("stderr"))
	}
	k.ts.Check(err)
}
