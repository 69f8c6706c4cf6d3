package cli

import (
	"fmt"
	"strconv"
)

// Ranges of what a host may be asked. Nobody means what is outside, and the rate
// of what is below is told apart from none only after hours.
const (
	maxRequests = 10000
	minRate     = 0.01
	maxRate     = 1e6
)

// requestCount is a flag for requests under way at once; not given is 0.
type requestCount int

func (n *requestCount) String() string { return strconv.Itoa(int(*n)) }

// Type is what help calls the value.
func (n *requestCount) Type() string { return "int" }

// Set reads a value.
func (n *requestCount) Set(s string) error {
	v, err := strconv.Atoi(s)
	if err != nil || v < 1 || v > maxRequests {
		return fmt.Errorf("%q is not a number from 1 to %d", s, maxRequests)
	}
	*n = requestCount(v)
	return nil
}

// requestRate is a flag for requests per second; not given is 0.
type requestRate float64

func (r *requestRate) String() string { return strconv.FormatFloat(float64(*r), 'g', -1, 64) }

// Type is what help calls the value.
func (r *requestRate) Type() string { return "float" }

// Set reads a value.
func (r *requestRate) Set(s string) error {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || !(v >= minRate && v <= maxRate) { // NaN is neither
		return fmt.Errorf("%q is not a number from %g to %.0f", s, minRate, maxRate)
	}
	*r = requestRate(v)
	return nil
}
