package httpchain

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const longest = time.Duration(math.MaxInt64)

// RetryAfter reads a Retry-After header in either form, seconds or a date
// (RFC 9110, 10.2.3). A date that has passed is no wait; one that is further away
// than a duration can hold, or as many seconds, is the longest.
func RetryAfter(h http.Header, now time.Time) (time.Duration, bool) {
	v := strings.TrimSpace(h.Get("Retry-After"))
	if v != "" && strings.Trim(v, "0123456789") == "" {
		seconds, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seconds > int64(longest/time.Second) {
			return longest, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(0, at.Sub(now)), true
	}
	return 0, false
}

// told is a Retry-After as it was sent, in words; it has been read by [RetryAfter].
func told(h http.Header) string {
	v := strings.TrimSpace(h.Get("Retry-After"))
	switch {
	case strings.Trim(v, "0123456789") != "":
		return "until " + v
	case len(v) > maxDigits:
		return v[:maxDigits] + "... seconds"
	}
	return v + " seconds"
}

// maxDigits is how much of a number is shown that nobody will wait for.
const maxDigits = 20
