package buildkit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// MissingToolError reports a program that a local buildkitd needs.
type MissingToolError struct {
	// Tool is its name.
	Tool string
	// Looked are the files that were looked for.
	Looked []string
	// Install says where to get it.
	Install string
}

func (e *MissingToolError) Error() string {
	where := "there is nowhere to look"
	if len(e.Looked) > 0 {
		where = "looked for " + strings.Join(e.Looked, ", ")
	}
	return fmt.Sprintf("%s: not found (%s)", e.Tool, where)
}

const (
	installBuildkitd = "put buildkitd beside manifold or in PATH (releases of github.com/moby/buildkit, or your distribution's package), or name a node with --node or --builder"
	installRunc      = "install runc (apt install runc, dnf install runc, apk add runc) or crun, or put buildkit-runc of a BuildKit release beside buildkitd"
)

// findTools returns the paths of buildkitd and of the runtime it is to use.
func findTools(o LocalOptions) (buildkitd, runc string, err error) {
	dirs := searchDirs(o)
	if o.Buildkitd != "" {
		// What the user named is not replaced by something else.
		if !isProgram(o.Buildkitd) {
			return "", "", &MissingToolError{Tool: "buildkitd", Looked: []string{o.Buildkitd}, Install: installBuildkitd}
		}
		buildkitd = o.Buildkitd
		dirs = append([]string{filepath.Dir(o.Buildkitd)}, dirs...)
	} else if buildkitd, err = find(dirs, "buildkitd", installBuildkitd, "buildkitd"); err != nil {
		return "", "", err
	}
	runc, err = find(dirs, "runc", installRunc, "buildkit-runc", "runc", "crun")
	return buildkitd, runc, err
}

func searchDirs(o LocalOptions) []string {
	var dirs []string
	for _, dir := range append([]string{o.Beside}, filepath.SplitList(o.Path)...) {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// find prefers an earlier name to an earlier directory: a runtime shipped for
// BuildKit fits it best.
func find(dirs []string, tool, install string, names ...string) (string, error) {
	missing := &MissingToolError{Tool: tool, Install: install}
	for _, name := range names {
		for _, dir := range dirs {
			path := filepath.Join(dir, name)
			if isProgram(path) {
				return filepath.Abs(path)
			}
			missing.Looked = append(missing.Looked, path)
		}
	}
	return "", missing
}

func isProgram(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0
}
