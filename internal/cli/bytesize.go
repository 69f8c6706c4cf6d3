package cli

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// maxBytes is more than any blob has.
const maxBytes = 1 << 40

// byteSize is a flag for a number of bytes up to [maxBytes], as "64MB" or "64MiB".
// Both mean powers of 1024, as they do for Docker's flags.
type byteSize int64

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Type is what help calls the value.
func (b *byteSize) Type() string { return "bytes" }

var byteSizes = regexp.MustCompile(`^([0-9]+)(?:b|([kmgt])(?:i?b)?)?$`)

// Set reads a value.
func (b *byteSize) Set(s string) error {
	parts := byteSizes.FindStringSubmatch(strings.ToLower(strings.TrimSpace(s)))
	if parts == nil {
		return fmt.Errorf("%q is not a number of bytes from 0 to 1TB, as 64MB", s)
	}
	shift := 10 * (1 + strings.Index("kmgt", parts[2]))
	if parts[2] == "" {
		shift = 0
	}
	n, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || n > maxBytes>>shift {
		return fmt.Errorf("%q is not a number of bytes from 0 to 1TB, as 64MB", s)
	}
	*b = byteSize(n << shift)
	return nil
}
