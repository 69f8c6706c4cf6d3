package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// byteSize is a flag for a number of bytes, as "64MB" or "64MiB". Both mean
// powers of 1024, as they do for Docker's flags.
type byteSize int64

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return strconv.FormatInt(int64(*b), 10)
}

// Type is what help calls the value.
func (b *byteSize) Type() string { return "bytes" }

// Set reads a value.
func (b *byteSize) Set(s string) error {
	text := strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "b"), "i")
	shift := 0
	if i := strings.IndexAny(text, "kmgt"); i >= 0 && i == len(text)-1 {
		shift = 10 * (1 + strings.IndexByte("kmgt", text[i]))
		text = text[:i]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is not a number of bytes, as 64MB", s)
	}
	*b = byteSize(n << shift)
	return nil
}
