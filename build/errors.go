package build

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/manifold-oci/manifold/oci"
)

// UnreachableError reports a node that did not answer.
type UnreachableError struct {
	Node     string
	Endpoint string
	// Waited is how long an answer was waited for.
	Waited time.Duration
	Err    error
}

func (e *UnreachableError) Error() string {
	s := "node " + e.Node
	if e.Endpoint != "" && e.Endpoint != e.Node {
		s += " at " + e.Endpoint
	}
	s += fmt.Sprintf(": no answer in %s", e.Waited.Round(100*time.Millisecond))
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// NoNodeError reports a platform that no node lists.
type NoNodeError struct {
	// Platform is nil if there is no node at all.
	Platform *oci.Platform
	// Nodes maps a node's name to the platforms it lists or was given.
	Nodes map[string][]oci.Platform
}

func (e *NoNodeError) Error() string {
	if e.Platform == nil {
		return "no node to build on"
	}
	var have []string
	for _, name := range slices.Sorted(maps.Keys(e.Nodes)) {
		have = append(have, name+" has "+formatPlatforms(e.Nodes[name]))
	}
	return oci.FormatPlatform(*e.Platform) + ": no node builds this platform: " + strings.Join(have, "; ")
}

func formatPlatforms(ps []oci.Platform) string {
	if len(ps) == 0 {
		return "none"
	}
	out := make([]string, len(ps))
	for i, p := range ps {
		out[i] = oci.FormatPlatform(p)
	}
	return strings.Join(out, ", ")
}

// NodeError reports a build that failed. Err is the failure itself, never a
// cancellation that another node's failure caused.
type NodeError struct {
	Node string
	// Platform is nil if the failure belongs to no single platform.
	Platform *oci.Platform
	Err      error
}

func (e *NodeError) Error() string {
	s := "node " + e.Node
	if e.Platform != nil {
		s += ", " + oci.FormatPlatform(*e.Platform)
	}
	return s + ": " + e.Err.Error()
}

func (e *NodeError) Unwrap() error { return e.Err }

// DestinationError reports that the place where images go refused or failed
// while a node built: no fault of the node. Err names the place.
type DestinationError struct {
	// Platform is nil if the failure belongs to no single platform.
	Platform *oci.Platform
	Err      error
}

func (e *DestinationError) Error() string {
	if e.Platform == nil {
		return e.Err.Error()
	}
	return oci.FormatPlatform(*e.Platform) + ": " + e.Err.Error()
}

func (e *DestinationError) Unwrap() error { return e.Err }
