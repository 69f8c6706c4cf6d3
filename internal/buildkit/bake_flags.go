package buildkit

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/buildx/bake"
	"github.com/docker/buildx/util/buildflags"
)

// filesOfEnvironment are the names in BUILDX_BAKE_FILE.
func (r bakeReader) filesOfEnvironment() ([]string, error) {
	given, _ := r.env("BUILDX_BAKE_FILE")
	separator, _ := r.env("BUILDX_BAKE_PATH_SEPARATOR")
	if separator == "" {
		separator = string(filepath.ListSeparator)
	}
	var out []string
	for name := range strings.SplitSeq(given, separator) {
		if name = strings.TrimSpace(name); name == "" {
			continue
		}
		if _, err := os.Stat(name); err != nil && name != "-" {
			return nil, &UsageError{Value: "BUILDX_BAKE_FILE", Reason: name + ": " + reason(err)}
		}
		out = append(out, name)
	}
	return out, nil
}

// relativePaths reports whether paths in a bake file start where the file is.
func (r bakeReader) relativePaths() (bool, error) {
	const name = "BUILDX_BAKE_FILE_RELATIVE_PATHS"
	given, _ := r.env(name)
	if given = strings.TrimSpace(given); given == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(given)
	if err != nil {
		return false, &UsageError{Value: name, Reason: fmt.Sprintf("%q is neither true nor false", given)}
	}
	return on, nil
}

func (r bakeReader) variables() (map[string]string, error) {
	vars := map[string]string{}
	for _, v := range r.list("var") {
		if v == "" {
			continue
		}
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, &UsageError{Flag: "var", Value: v, Reason: "want NAME=VALUE"}
		}
		vars[name] = value
	}
	return vars, nil
}

// overrides are --set and the flags that stand for it. unchecked says that
// --policy turns policies off.
func (r bakeReader) overrides() (out []string, unchecked bool, err error) {
	out = slices.Clone(r.list("set"))
	for _, name := range []string{"push", "load"} {
		if r.on(name) {
			out = append(out, "*."+name+"=true")
		}
	}
	for _, name := range []string{"no-cache", "pull"} {
		if f := r.flags.Lookup(name); f.Changed {
			out = append(out, "*."+name+"="+f.Value.String())
		}
	}
	for _, name := range []string{"sbom", "provenance"} {
		if v := r.str(name); v != "" {
			out = append(out, "*.attest="+buildflags.CanonicalizeAttest(name, v))
		}
	}
	call, err := buildflags.ParseCallFunc(r.str("call"))
	if err != nil {
		return nil, false, usage("call", err)
	}
	if call != nil {
		out = append(out, "*.call="+call.Name)
	}
	policies, unchecked, err := r.policies()
	return append(out, policies...), unchecked, err
}

// policies are those of --policy, which adds to what bake files have, or turns
// all of it off. Which policies there are is a matter of the files.
func (r bakeReader) policies() (out []string, unchecked bool, err error) {
	given := r.list("policy")
	configs, err := buildflags.ParsePolicyConfigs(given)
	if err != nil {
		return nil, false, usage("policy", err)
	}
	for i, c := range configs {
		switch {
		case len(c.Files) > 0 || c.Reset:
			return nil, false, &UsageError{Flag: "policy", Value: given[i], Reason: "filename and reset belong into the bake file"}
		case c.Disabled && (c.Strict != nil || c.LogLevel != nil || len(configs) > 1):
			return nil, false, &UsageError{Flag: "policy", Value: given[i], Reason: "disabled stands alone"}
		case c.Disabled:
			return nil, true, nil
		}
		out = append(out, "*.policy+="+given[i])
	}
	return out, false, nil
}

// entitlements allow what is below the working directory, as in buildx, and
// what --allow names.
func (r bakeReader) entitlements() (bake.EntitlementConf, error) {
	allowed, err := bake.ParseEntitlements(r.list("allow"))
	if err != nil {
		return allowed, usage("allow", err)
	}
	wd, err := os.Getwd()
	allowed.FSRead = append(allowed.FSRead, wd)
	allowed.FSWrite = append(allowed.FSWrite, wd)
	return allowed, err
}
