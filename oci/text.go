package oci

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// TextError reports a text that cannot stand in a JSON document: it is not UTF-8,
// and would be stored as another one.
type TextError struct {
	// Text as given.
	Text string
}

func (e *TextError) Error() string { return fmt.Sprintf("%q is not UTF-8", e.Text) }

// CheckTexts returns a [*TextError] for the first text that is not UTF-8.
func CheckTexts(texts ...string) error {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return &TextError{Text: s}
		}
	}
	return nil
}

// CheckAnnotations does so for keys and values, in the order of the keys.
func CheckAnnotations(all map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := CheckTexts(key, all[key]); err != nil {
			return err
		}
	}
	return nil
}

// CheckPlatform does so for the fields of a platform.
func CheckPlatform(p Platform) error {
	return CheckTexts(append([]string{p.OS, p.Architecture, p.Variant, p.OSVersion}, p.OSFeatures...)...)
}
