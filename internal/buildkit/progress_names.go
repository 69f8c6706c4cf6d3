package buildkit

import (
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold/report"
)

// stepName is the line of a step.
func stepName(e report.Event) string {
	switch e.Kind {
	case report.Resolve:
		return "resolving " + e.Target
	case report.Manifest:
		return "pushing manifest " + contentName(e) + inBrackets(e.Platform)
	case report.ReadBack:
		return "reading back " + contentName(e) + inBrackets(e.Platform)
	case report.Tag:
		return fmt.Sprintf("moving tag %s to %s", e.Target, e.Digest)
	case report.Restore:
		if e.Digest == "" {
			return "removing tag " + e.Target
		}
		return fmt.Sprintf("restoring tag %s to %s", e.Target, e.Digest)
	case report.Remove:
		return "removing " + contentName(e)
	case report.Build:
		return strings.Join(strings.Fields("building "+e.Platform+onNode(e.Node)), " ")
	case report.Wait:
		return waitName(e)
	}
	return strings.TrimSpace(string(e.Kind) + " " + e.Target)
}

// contentName is REPO@DIGEST, also where the target has its tag or the digest
// already.
func contentName(e report.Event) string {
	if e.Digest == "" || strings.Contains(e.Target, "@") {
		return e.Target
	}
	return e.Target + "@" + e.Digest.String()
}

func inBrackets(platform string) string {
	if platform == "" {
		return ""
	}
	return " (" + platform + ")"
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " on " + node
}

func waitName(e report.Event) string {
	s := fmt.Sprintf("waiting %s for %s", e.Delay, e.Target)
	if why := e.Text; why != "" {
		return s + ": " + why
	}
	if e.Err != nil {
		return s + ": " + e.Err.Error()
	}
	return s
}
