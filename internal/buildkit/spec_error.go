package buildkit

import (
	"fmt"
	"strings"
)

// UsageError reports a flag or argument that cannot be followed. It is found
// before any node is asked.
type UsageError struct {
	// Flag is the flag's name without dashes, empty for the build context.
	Flag string
	// Value is what was given, empty where it adds nothing or may be secret.
	Value string
	// Reason says what is wrong.
	Reason string
}

func (e *UsageError) Error() string {
	var subject []string
	if e.Flag != "" {
		subject = append(subject, "--"+e.Flag)
	}
	if e.Value != "" {
		subject = append(subject, fmt.Sprintf("%q", e.Value))
	}
	if len(subject) == 0 {
		return e.Reason
	}
	return strings.Join(subject, " ") + ": " + e.Reason
}

// usage makes an error of buildx's parsers a usage error of a flag.
func usage(flag string, err error) error {
	if err == nil {
		return nil
	}
	return &UsageError{Flag: flag, Reason: err.Error()}
}
