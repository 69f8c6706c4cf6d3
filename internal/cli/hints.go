package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/internal/binarycheck"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
)

// printError writes an error and, on a line of its own, what to do about it.
func printError(w io.Writer, err error) {
	buildkit.Explain(w, err)
	_, _ = fmt.Fprintf(w, "error: %s\n", printable(err))
	if hint := hintFor(err); hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", hint)
	}
}

// printable is the text of an error as it is printed: without logins and tokens,
// and without what would move a cursor.
func printable(err error) string { return render.Text(redact.Text(err.Error())) }

// codeOf is the exit code of an error that carries none.
func codeOf(err error) int {
	switch {
	case is[*apply.RaceError](err), is[*apply.WorldError](err), is[*plan.PreconditionError](err), registry.Immutable(err),
		is[*manifold.ExpectedError](err), is[*manifold.EditConflictError](err), is[*publish.DigestError](err):
		return ExitPrecondition
	case noSuchLayout(err), is[*manifold.PatternError](err),
		is[*unknownError](err), is[*buildkit.UsageError](err), is[*buildkit.SharedTagError](err), is[*oci.PlatformError](err), is[*oci.TextError](err), is[*ref.Error](err):
		return ExitUsage
	}
	return ExitFailed
}

func is[T error](err error) bool {
	var target T
	return errors.As(err, &target)
}

// noSuchLayout reports a layout or archive that was named and is not there.
func noSuchLayout(err error) bool {
	return is[*layout.Error](err) && errors.Is(err, fs.ErrNotExist)
}

// hint is what to do about the errors that it is about.
type hint struct {
	about func(error) bool
	text  string
}

// hintFor chooses by type; "" when there is nothing useful to say.
func hintFor(err error) string {
	var missing *buildkit.MissingToolError
	if errors.As(err, &missing) {
		return missing.Install
	}
	var unknown *unknownError
	if errors.As(err, &unknown) {
		return unknown.hint()
	}
	for _, table := range [][]hint{runHints(), tagHints(), registryHints(err), indexHints()} {
		for _, h := range table {
			if h.about(err) {
				return h.text
			}
		}
	}
	return ""
}

// runHints are about nodes, builds and the engine.
func runHints() []hint {
	return []hint{
		{is[*build.NoNodeError], "name a node for it with --node PLATFORM=ENDPOINT, or build it under emulation with --allow-emulation"},
		{is[*build.UnreachableError], "is buildkitd running there, and is the endpoint right? --node-timeout sets how long to wait"},
		{is[*binarycheck.MismatchError], "is a stage pinned to another platform, or a file copied from the wrong place? --no-binary-check publishes it as it is"},
		{is[*buildkit.PlatformError], "does the frontend (# syntax=, BUILDKIT_SYNTAX) build what --platform asks for, and give an image config?"},
		{is[*buildkit.SharedTagError], "give the platforms to one target, which makes one index of them, or publish each under its own tag and join them with: manifold create"},
		{is[*buildkit.DriverError], "turn on the engine's containerd image store, or create a builder: docker buildx create --driver docker-container --use"},
		{is[*render.FieldError], "the names are those that inspect --json prints, as {{.digest}} and {{json .images}}; buildx's .Manifest, .Image and .Provenance are not among them"},
		{is[*buildkit.LoadError], "turn on the engine's containerd image store, or load one platform"},
	}
}

// tagHints are about tags that may not move, and about where they are.
func tagHints() []hint {
	return []hint{
		{is[*apply.RaceError], "another job publishes this tag; the index of this run is in the registry under its digest"},
		{is[*manifold.UnreadableError], "run the command that was interrupted itself again, then remove the file: it remembers nothing else"},
		{is[*staleError], "run the command itself again, which looks at what the tags name now, or drop this with: manifold resume --forget"},
		{is[*apply.WorldError], "make the plan again, and look at what it would replace now"},
		{movedMeanwhile, "somebody else has moved the tag; look at it with: manifold inspect"},
		{alreadyThere, "the tag is there already; look at it with: manifold inspect"},
		{notThere, "there is no such tag; one that must not be there is expected with TAG=none"},
		{is[*plan.PreconditionError], "the tag names something else than you expect; look at it with: manifold inspect"},
		{is[*manifold.ReferrersError], "--fallback-tags writes tags that list them, where a registry cannot"},
		{is[*manifold.ElsewhereError], "manifold copy brings an image to another place, under the tag that it is to have there"},
	}
}

func movedMeanwhile(err error) bool {
	var e *plan.PreconditionError
	return errors.As(err, &e) && e.Moved
}

func alreadyThere(err error) bool {
	var e *plan.PreconditionError
	return errors.As(err, &e) && e.Expected == ""
}

func notThere(err error) bool {
	var e *plan.PreconditionError
	return errors.As(err, &e) && e.Found == ""
}

// hubByDefault is about Docker Hub where it does not answer or refuses: it is
// what names mean that have no registry, which may not be what was meant.
func hubByDefault(err error) bool {
	var e *registry.Error
	return errors.As(err, &e) && e.Host() == "docker.io" && (registry.Denied(err) || registry.Unreachable(err))
}

// registryHints are about what a registry has answered, or has not.
func registryHints(err error) []hint {
	host := "HOST"
	var answer *registry.Error
	if errors.As(err, &answer) {
		host = answer.Host()
	}
	return []hint{
		{registry.TagsStay, "this registry cannot delete a tag alone, or deleting is switched off; nothing was deleted: by its digest an image loses all its tags"},
		{registry.Immutable, "the tag may not be moved in this registry: publish under a new tag"},
		{registry.HelperMissing, "install the credential helper, or take it out of the file that names it"},
		{registry.LoginRefused, "the login was refused: log in again with docker login " + host + "; if the image is public, docker logout " + host + " will do"},
		{hubByDefault, "a name without a registry is one of docker.io, Docker Hub: write HOST/NAME for another registry, or log in with: docker login"},
		{registry.HostUnknown, "is " + host + " spelled right, and does this machine resolve it?"},
		{registry.Unreachable, "does a registry listen at " + host + ", and is the port right?"},
		{registry.Denied, "log in with: docker login " + host},
		{registry.SourceLacks, "the source has lost a part of the image: push it there again, or leave the platform out with --platform"},
		{is[*manifold.UnfinishedError], "what was sent stays; the same command again finishes it, and so does: manifold resume"},
	}
}
