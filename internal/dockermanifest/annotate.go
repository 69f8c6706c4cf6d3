package dockermanifest

import (
	"errors"
	"slices"

	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
)

// Annotation is what a user says about the platform of an entry. Empty fields
// say nothing, as with Docker.
type Annotation struct {
	OS, Architecture, Variant, OSVersion string
	// OSFeatures are added to those that are there.
	OSFeatures []string
	// Clear names fields to empty first: "variant", "os-version",
	// "os-features".
	Clear []string
}

// Annotate changes the platform of an entry. Any system and architecture will
// do, but there must be one of each in the end. Errors: [*NameError],
// [*NoEntryError], [*AmbiguousError], [*PlatformError], [*ClearError].
func (l *Lists) Annotate(list, source string, a Annotation) error {
	name, err := parse(list)
	if err != nil {
		return named("annotate: error parsing name for manifest list "+redact.Word(list), err)
	}
	image, err := parse(source)
	if err != nil {
		return named("annotate: error parsing name for manifest "+redact.Word(source), err)
	}
	e, err := l.Store.Entry(name, image)
	var none *NotFoundError
	switch {
	case errors.As(err, &none):
		return &NoEntryError{Source: source, List: list}
	case err != nil:
		return err
	}
	p, err := a.apply(e.Descriptor.Platform)
	if err != nil {
		return err
	}
	if err := oci.CheckPlatform(p); err != nil {
		return err
	}
	e.Descriptor.Platform = &p
	return l.Store.Save(name, e)
}

func (a Annotation) apply(old *oci.Platform) (oci.Platform, error) {
	var p oci.Platform
	if old != nil {
		p = *old
		p.OSFeatures = slices.Clone(p.OSFeatures)
	}
	for _, field := range a.Clear {
		if err := clearField(&p, field); err != nil {
			return p, err
		}
	}
	for _, f := range []struct {
		to   *string
		text string
	}{{&p.OS, a.OS}, {&p.Architecture, a.Architecture}, {&p.Variant, a.Variant}, {&p.OSVersion, a.OSVersion}} {
		if f.text != "" {
			*f.to = f.text
		}
	}
	for _, f := range a.OSFeatures {
		if !slices.Contains(p.OSFeatures, f) {
			p.OSFeatures = append(p.OSFeatures, f)
		}
	}
	if _, err := oci.ParsePlatform(p.OS + "/" + p.Architecture); err != nil {
		return p, &PlatformError{OS: a.OS, Architecture: a.Architecture}
	}
	return p, nil
}

func clearField(p *oci.Platform, field string) error {
	switch field {
	case "variant":
		p.Variant = ""
	case "os-version":
		p.OSVersion = ""
	case "os-features":
		p.OSFeatures = nil
	default:
		return &ClearError{Field: field}
	}
	return nil
}
