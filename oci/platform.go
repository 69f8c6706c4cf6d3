package oci

import (
	"fmt"
	"slices"
	"strings"

	"github.com/containerd/platforms"
)

// PlatformError reports a platform that does not parse.
type PlatformError struct {
	Platform string
	Reason   string
}

func (e *PlatformError) Error() string { return fmt.Sprintf("platform %q: %s", e.Platform, e.Reason) }

// ParsePlatform reads os/arch[/variant], with an os.version in parentheses
// after the os as BuildKit writes it. Uncommon systems pass: no table of
// allowed values is consulted. The error is a [*PlatformError].
func ParsePlatform(s string) (Platform, error) {
	if s == "" || s == "local" || strings.ContainsAny(s, "* ,") {
		return Platform{}, &PlatformError{Platform: s, Reason: "want os/arch or os/arch/variant"}
	}
	if strings.Count(s, "/") == 0 {
		// platforms.Parse would fill in this machine's os or architecture.
		return Platform{}, &PlatformError{Platform: s, Reason: "want os/arch or os/arch/variant, as in linux/" + s}
	}
	p, err := platforms.Parse(s)
	if err == nil {
		return NormalizePlatform(p), nil
	}
	parts := strings.Split(s, "/")
	if len(parts) > 3 || slices.Contains(parts, "") {
		return Platform{}, &PlatformError{Platform: s, Reason: "want os/arch or os/arch/variant"}
	}
	return Platform{}, &PlatformError{Platform: s, Reason: err.Error()}
}

// NormalizePlatform maps the spellings of one platform to one value: arm64/v8
// is arm64, arm is arm/v7, x86_64 is amd64. It is for comparing; descriptors
// are never rewritten with it.
func NormalizePlatform(p Platform) Platform {
	n := platforms.Normalize(p)
	if n.Architecture == "arm64" && (n.Variant == "v8" || n.Variant == "8") {
		n.Variant = ""
	}
	if n.Architecture == "amd64" && n.Variant == "v1" {
		n.Variant = ""
	}
	return n
}

// FormatPlatform writes os/arch[/variant], with the os.version in parentheses:
// "windows(10.0.20348.1)/amd64". An empty platform is "unknown/unknown".
func FormatPlatform(p Platform) string {
	if p.OS == "" && p.Architecture == "" {
		return "unknown/unknown"
	}
	s := p.OS
	if p.OSVersion != "" {
		s += "(" + p.OSVersion + ")"
	}
	s += "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// PlatformKey is equal for two platforms that a runtime cannot tell apart: the
// normalised platform with os.version and os.features.
func PlatformKey(p Platform) string {
	n := NormalizePlatform(p)
	features := slices.Clone(n.OSFeatures)
	slices.Sort(features)
	key := FormatPlatform(n)
	if len(features) > 0 {
		key += "+" + strings.Join(features, "+")
	}
	return key
}

// IsUnknownPlatform reports whether a platform says nothing, as attestation
// entries and artifacts have it.
func IsUnknownPlatform(p *Platform) bool {
	return p == nil || (p.OS == "" || p.OS == "unknown") && (p.Architecture == "" || p.Architecture == "unknown")
}

// SatisfiesPlatform reports whether an image for have is exactly what want asks
// for: equal after normalisation; os.version and os.features are compared only
// where want has them. An arm/v6 image does not satisfy arm/v7 or the reverse.
func SatisfiesPlatform(want, have Platform) bool {
	w, h := NormalizePlatform(want), NormalizePlatform(have)
	if w.OS != h.OS || w.Architecture != h.Architecture || w.Variant != h.Variant {
		return false
	}
	if w.OSVersion != "" && w.OSVersion != h.OSVersion {
		return false
	}
	for _, f := range w.OSFeatures {
		if !slices.Contains(h.OSFeatures, f) {
			return false
		}
	}
	return true
}
