package cli

import (
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/index"
)

// indexHint is the hint for what cannot be one index.
func indexHint(err error) string {
	switch {
	case is[*manifold.BaseError](err):
		return "--append --create-missing makes the tag"
	case is[*index.AbsentError](err):
		return "look at what is there with: manifold inspect; --append --replace also adds what is not there"
	case is[*index.DuplicateError](err):
		return "give one source per platform, keep some platforms only with --platform, or put one in the place of the other with --replace"
	}
	return ""
}
