package buildkit

import (
	"maps"
	"strconv"
	"strings"

	"github.com/moby/buildkit/client"
)

// Jobs say how the targets of a bake file run beside each other: --jobs.
type Jobs struct {
	// Parallel is how many targets run at once, 0 for all.
	Parallel int
	// DeferOutput: nothing is published or written before all targets are built.
	DeferOutput bool
	// DeferError: a target that fails stops no other one.
	DeferError bool
}

// Jobs reads --jobs: "N" or "MODE[,parallel=N]", the mode being fail-fast,
// defer-output or defer-error. The error is a [*UsageError].
func (c *Command) Jobs() (Jobs, error) {
	given := strings.TrimSpace(c.flags.Lookup("jobs").Value.String())
	if _, err := strconv.Atoi(given); err == nil {
		given = "parallel=" + given
	}
	var j Jobs
	if given == "" {
		return j, nil
	}
	seen := map[string]bool{}
	for field := range strings.SplitSeq(given, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(field), "=")
		if !ok {
			key, value = "mode", key
		}
		key, value = strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value)
		if seen[key] || !j.set(key, value) {
			return Jobs{}, &UsageError{Flag: "jobs", Value: given, Reason: "want N, or fail-fast, defer-output or defer-error, and parallel=N"}
		}
		seen[key] = true
	}
	return j, nil
}

func (j *Jobs) set(key, value string) bool {
	switch key {
	case "mode":
		j.DeferOutput, j.DeferError = value == "defer-output", value == "defer-error"
		return j.DeferOutput || j.DeferError || value == "fail-fast"
	case "parallel":
		n, err := strconv.Atoi(value)
		j.Parallel = n
		return err == nil && n >= 0
	}
	return false
}

// Evaluated is a build that leaves its result in the caches of nodes only: no other
// cache is written, that of a context neither.
func (s *Spec) Evaluated() *Spec {
	out := *s
	out.Others = []client.ExportEntry{{Type: "cacheonly"}}
	out.Options.CacheTo = nil
	out.linked = maps.Clone(s.linked)
	for name, o := range out.linked {
		o.CacheTo = nil
		out.linked[name] = o
	}
	return &out
}

// Again is a build that takes what an evaluation has left in the caches.
func (s *Spec) Again() *Spec {
	out := *s
	out.Options = cached(s.Options)
	return &out
}
