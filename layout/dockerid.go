package layout

import (
	"strings"

	"github.com/opencontainers/go-digest"
)

// Of the hex digits of an ID as a short one, Docker wants at least minID.
const (
	minID  = 4
	fullID = 64
)

// imageID returns the hex digits of what can be the ID of an image, whole or its
// beginning, with sha256: before it or not; "" for anything else. Such a text can
// be a name, too, and Docker looks for names first, but for the 64 digits.
func imageID(s string) string {
	hex := strings.TrimPrefix(s, string(digest.SHA256)+":")
	if len(hex) < minID || len(hex) > fullID || strings.Trim(hex, "0123456789abcdef") != "" {
		return ""
	}
	return hex
}

// fullDigest is the digest that an ID with all its digits is, "" for another.
func fullDigest(s string) digest.Digest {
	if hex := imageID(s); len(hex) == fullID {
		return digest.NewDigestFromEncoded(digest.SHA256, hex)
	}
	return ""
}
