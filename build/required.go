package build

import (
	"errors"
	"slices"

	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
)

// requires reports whether Run fails without a platform.
func (o Options) requires(p oci.Platform) bool {
	return len(o.Required) == 0 || slices.ContainsFunc(o.Required, func(q oci.Platform) bool { return oci.PlatformKey(p) == oci.PlatformKey(q) })
}

func (o Options) leftOut(p oci.Platform, err error) {
	o.Report.Send(report.Event{
		Kind: report.Warning, State: report.Done, Platform: oci.FormatPlatform(p),
		Text: oci.FormatPlatform(p) + " is left out: " + err.Error(), Err: err,
	})
}

// failure is a job that failed.
type failure struct {
	job job
	err error
}

// platforms are those that the failure is about: the ones it names, or all of
// the job.
func (f failure) platforms() []oci.Platform {
	var out []oci.Platform
	for _, err := range Parts(f.err) {
		p := platformOf(err)
		if p == nil {
			return f.job.platforms
		}
		out = append(out, *p)
	}
	return out
}

// platformOf is the platform that an error names, or nil.
func platformOf(err error) *oci.Platform {
	var node *NodeError
	var destination *DestinationError
	switch {
	case errors.As(err, &node):
		return node.Platform
	case errors.As(err, &destination):
		return destination.Platform
	}
	return nil
}

// matters reports whether a failure is about a platform that is required.
func (f failure) matters(o Options) bool {
	ps := f.platforms()
	return len(ps) == 0 || slices.ContainsFunc(ps, o.requires)
}

// Parts takes joined errors apart: the error of a node may be about several
// platforms.
func Parts(err error) []error {
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return []error{err}
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, Parts(e)...)
	}
	return out
}

// without returns the images less those of platforms that failed, which were
// optional. An index needs one image at least.
func (o Options) without(images []Image, failures []failure) ([]Image, error) {
	var errs []error
	for _, f := range failures {
		errs = append(errs, f.err)
		for _, p := range f.platforms() {
			o.leftOut(p, f.err)
			images = slices.DeleteFunc(images, func(im Image) bool { return oci.PlatformKey(im.Platform) == oci.PlatformKey(p) })
		}
	}
	if len(images) == 0 || o.lacks(images, failures) {
		return images, errors.Join(errs...)
	}
	return images, nil
}

// lacks reports a required platform that a failed job was to build and has no image
// of, whichever platform its error names.
func (o Options) lacks(images []Image, failures []failure) bool {
	return slices.ContainsFunc(failures, func(f failure) bool {
		return slices.ContainsFunc(f.job.platforms, func(p oci.Platform) bool { return o.requires(p) && find(images, p) < 0 })
	})
}
