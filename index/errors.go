package index

import (
	"errors"
	"fmt"

	"github.com/opencontainers/go-digest"
)

// ErrEmpty reports an index without any image that runs.
var ErrEmpty = errors.New("no image with a platform: the index would be empty")

// Origin is an image in a message: what it is and where it was named.
type Origin struct {
	Digest digest.Digest
	// Source is a reference, or empty.
	Source string
}

func (o Origin) String() string {
	if o.Source == "" {
		return string(o.Digest)
	}
	return fmt.Sprintf("%s (%s)", o.Source, o.Digest)
}

// DuplicateError reports two different images for one platform. A runtime would
// take the first, whichever that happens to be.
type DuplicateError struct {
	// Platform as os/arch[/variant].
	Platform      string
	First, Second Origin
}

func (e *DuplicateError) Error() string {
	return fmt.Sprintf("platform %s: given twice, by %s and by %s", e.Platform, e.First, e.Second)
}

// NoPlatformError reports an image of which nobody said where it runs.
type NoPlatformError struct{ Image Origin }

func (e *NoPlatformError) Error() string {
	return fmt.Sprintf("%s: has no platform, neither in its descriptor nor in a config", e.Image)
}

// EntryError reports an entry that has no place in an index of images.
type EntryError struct {
	Image  Origin
	Reason string
}

func (e *EntryError) Error() string { return fmt.Sprintf("%s: %s", e.Image, e.Reason) }

// MediaTypeError reports a media type that cannot hold the result.
type MediaTypeError struct {
	MediaType string
	Reason    string
}

func (e *MediaTypeError) Error() string { return fmt.Sprintf("%s: %s", e.MediaType, e.Reason) }

// SizeError reports an index that registries would refuse.
type SizeError struct {
	// Size of the index, and the most that is allowed, in bytes.
	Size, Limit int
}

func (e *SizeError) Error() string {
	return fmt.Sprintf("index: %d bytes, the limit is %d", e.Size, e.Limit)
}
