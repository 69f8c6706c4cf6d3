package cli

import (
	"fmt"
	"time"
)

// idleTime is a flag for registry.Options.IdleTimeout: not given is the default
// of the library, and 0 is no bound, which is a negative number there.
type idleTime time.Duration

func (t *idleTime) String() string {
	switch d := time.Duration(*t); {
	case d == 0:
		return ""
	case d < 0:
		return "0"
	default:
		return d.String()
	}
}

// Type is what help calls the value.
func (t *idleTime) Type() string { return "duration" }

// Set reads a value.
func (t *idleTime) Set(s string) error {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil || d < 0:
		return fmt.Errorf("%q is not a time, as 30s", s)
	case d == 0:
		d = -1
	}
	*t = idleTime(d)
	return nil
}
