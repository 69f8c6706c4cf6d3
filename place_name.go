package manifold

import (
	"path/filepath"
	"strings"

	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
)

// PlaceError reports a place on disk that a plan which is carried out later
// cannot name: its path would be read as another one with a tag.
type PlaceError struct{ Place string }

func (e *PlaceError) Error() string {
	return e.Place + ": a plan that is carried out later cannot name this place: a part of its path reads as a tag or digest"
}

// placeName is absolute where it is a path: a plan may be run from another
// directory.
func placeName(l ref.Location) string {
	if l.Transport != ref.DockerDaemon {
		if path, err := filepath.Abs(l.Path); err == nil {
			l.Path = path
		}
	}
	return ref.Location{Transport: l.Transport, Path: l.Path}.String()
}

// parsePlace reads the name of a place in a plan. Those on disk are named without
// a tag, so that one that is found in a name belongs to the path.
func parsePlace(name string) (ref.Location, error) {
	l, err := ref.ParseLocation(name)
	if err == nil && l.Transport != ref.Registry && l.Tag != "" {
		err = &PlaceError{Place: name}
	}
	return l, err
}

// keepable is the error of a plan that another run would read other places from.
func keepable(p plan.Plan) error {
	for _, s := range p.Steps {
		for _, name := range s.From {
			if strings.HasPrefix(name, builtPlace) {
				continue
			}
			if _, err := parsePlace(name); err != nil {
				return err
			}
		}
	}
	return nil
}
