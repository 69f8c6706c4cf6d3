package cli

import (
	"errors"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/oci"
)

// indexHints are about what cannot be one index.
func indexHints() []hint {
	return []hint{
		{is[*manifold.BaseError], "--append --create-missing makes the tag"},
		{nothingToReplace, "look at what is there with: manifold inspect; --append --replace also adds what is not there"},
		{is[*index.AbsentError], "look at what is there with: manifold inspect"},
		{notDocker, "an OCI index can: leave --type docker out"},
		{is[*index.DuplicateError], "give one source per platform, keep some platforms only with --platform, or put one in the place of the other with --replace"},
	}
}

// notDocker is about what no Docker manifest list can hold.
func notDocker(err error) bool {
	var e *index.MediaTypeError
	return errors.As(err, &e) && e.MediaType == oci.MediaTypeDockerList
}

func nothingToReplace(err error) bool {
	var e *index.AbsentError
	return errors.As(err, &e) && e.Replacing
}
