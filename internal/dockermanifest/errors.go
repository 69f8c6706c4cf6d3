package dockermanifest

import (
	"fmt"
	"strings"

	"github.com/opencontainers/go-digest"
)

// The texts of these errors are Docker's wherever Docker has one.

// NameError reports a name that is not a reference.
type NameError struct {
	// What is in front of the reason, "" for nothing.
	What   string
	Reason string
	Err    error
}

func (e *NameError) Error() string {
	if e.What == "" {
		return e.Reason
	}
	return e.What + ": " + e.Reason
}

func (e *NameError) Unwrap() error { return e.Err }

// NotFoundError reports a list, or an entry of one, that is not in the store.
type NotFoundError struct{ Name string }

func (e *NotFoundError) Error() string { return "No such manifest: " + e.Name }

// AbsentError reports a manifest that its registry does not have.
type AbsentError struct {
	Name string
	// Parent lists it, "" for nothing.
	Parent string
	Err    error
}

func (e *AbsentError) Error() string {
	s := "no such manifest: " + e.Name
	if e.Parent != "" {
		s += ", which " + e.Parent + " lists"
	}
	return s
}

func (e *AbsentError) Unwrap() error { return e.Err }

// ExistsError reports a list that exists and was not to be amended.
type ExistsError struct{ List string }

func (e *ExistsError) Error() string {
	return "refusing to amend an existing manifest list with no --amend flag"
}

// NoEntryError reports a source that is not in a list. Both are as given.
type NoEntryError struct{ Source, List string }

func (e *NoEntryError) Error() string {
	return fmt.Sprintf("manifest for image %s does not exist in %s", e.Source, e.List)
}

// AmbiguousError reports a source that stands for several entries.
type AmbiguousError struct {
	Source  string
	Entries []string
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("%s: stands for several images: name one of %s", e.Source, strings.Join(e.Entries, ", "))
}

// PlatformError reports a platform that cannot be annotated, as given.
type PlatformError struct{ OS, Architecture string }

func (e *PlatformError) Error() string {
	return fmt.Sprintf("manifest entry for image has unsupported os/arch combination: %s/%s", e.OS, e.Architecture)
}

// ClearError reports a field that --clear does not know.
type ClearError struct{ Field string }

func (e *ClearError) Error() string {
	return fmt.Sprintf("%q: cannot be cleared: want variant, os-version or os-features", e.Field)
}

// NoPlatformError reports an entry that cannot be pushed as it is.
type NoPlatformError struct{ Ref string }

func (e *NoPlatformError) Error() string {
	return fmt.Sprintf("manifest %s must have an OS and Architecture to be pushed to a registry", e.Ref)
}

// NoImageError reports an index that lists no image.
type NoImageError struct{ Ref string }

func (e *NoImageError) Error() string { return e.Ref + ": lists no image" }

// BytesError reports an entry whose bytes are not those of its digest.
type BytesError struct {
	Ref       string
	Want, Got digest.Digest
}

func (e *BytesError) Error() string {
	return fmt.Sprintf("internal digest mismatch for %s: expected %s, got %s", e.Ref, e.Want, e.Got)
}

// FileError reports a file in the store that is not an entry.
type FileError struct {
	Path string
	Err  error
}

func (e *FileError) Error() string {
	return e.Path + ": not an entry of a manifest list: " + e.Err.Error()
}

func (e *FileError) Unwrap() error { return e.Err }

// PutError reports a manifest that the registry did not take.
type PutError struct {
	// Ref is the tag or digest that was put.
	Ref string
	Err error
}

func (e *PutError) Error() string { return fmt.Sprintf("failed to put manifest %s: %v", e.Ref, e.Err) }

func (e *PutError) Unwrap() error { return e.Err }
