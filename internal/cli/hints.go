package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/binarycheck"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// printError writes an error and, on a line of its own, what to do about it.
func printError(w io.Writer, err error) {
	buildkit.Explain(w, err)
	_, _ = fmt.Fprintf(w, "error: %s\n", render.Text(err.Error()))
	if hint := hintFor(err); hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// codeOf is the exit code of an error that carries none.
func codeOf(err error) int {
	switch {
	case is[*apply.RaceError](err), is[*apply.WorldError](err), is[*plan.PreconditionError](err), registry.Immutable(err),
		is[*manifold.ExpectedError](err), is[*manifold.EditConflictError](err):
		return ExitPrecondition
	case is[*buildkit.UsageError](err), is[*buildkit.SharedTagError](err), is[*oci.PlatformError](err), is[*ref.Error](err):
		return ExitUsage
	}
	return ExitFailed
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// hintFor chooses by type; "" when there is nothing useful to say.
func hintFor(err error) string {
	var missing *buildkit.MissingToolError
	switch {
	case errors.As(err, &missing):
		return missing.Install
	case is[*build.NoNodeError](err):
		return "name a node for it with --node PLATFORM=ENDPOINT, or build it under emulation with --allow-emulation"
	case is[*build.UnreachableError](err):
		return "is buildkitd running there, and is the endpoint right? --node-timeout sets how long to wait"
	case is[*binarycheck.MismatchError](err):
		return "is a stage pinned to another platform, or a file copied from the wrong place? --no-binary-check publishes it as it is"
	case is[*buildkit.SharedTagError](err):
		return "give the platforms to one target, which makes one index of them, or publish each under its own tag and join them with: manifold create"
	case is[*buildkit.DriverError](err):
		return "turn on the engine's containerd image store, or create a builder: docker buildx create --driver docker-container --use"
	case is[*buildkit.LoadError](err):
		return "turn on the engine's containerd image store, or load one platform"
	case is[*apply.RaceError](err):
		return "another job publishes this tag; the index of this run is in the registry under its digest"
	case is[*apply.WorldError](err):
		return "make the plan again, and look at what it would replace now"
	case is[*plan.PreconditionError](err):
		return "somebody else has moved the tag; look at it with: manifold inspect"
	case is[*manifold.ReferrersError](err):
		return "--fallback-tags writes tags that list them, where a registry cannot"
	case is[*manifold.ElsewhereError](err):
		return "manifold copy brings an image to another place, under the tag that it is to have there"
	}
	if hint := registryHint(err); hint != "" {
		return hint
	}
	return indexHint(err)
}

// registryHint is about what a registry has answered, or has not.
func registryHint(err error) string {
	switch {
	case registry.TagsStay(err):
		return "this registry cannot delete a tag alone, or deleting is switched off; nothing was deleted, since its digest has other tags to lose"
	case registry.Immutable(err):
		return "the tag may not be moved in this registry: publish under a new tag"
	case registry.LoginRefused(err):
		return "the login was refused: log in again with docker login HOST; if the image is public, docker logout HOST will do"
	case registry.Denied(err):
		return "log in with: docker login HOST"
	case is[*manifold.UnfinishedError](err):
		return "what was sent stays; the same command again finishes it, and so does: manifold resume"
	}
	return ""
}
