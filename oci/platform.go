package oci

import (
	"errors"
	"fmt"
	"net/url"
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

// ParsePlatform reads os/arch[/variant], with an os.version and os.features in
// parentheses after the os as [FormatPlatform] writes them. Uncommon systems
// pass: no table of allowed values is consulted. The result is normalised. The
// error is a [*PlatformError].
func ParsePlatform(s string) (Platform, error) {
	bad := &PlatformError{Platform: s, Reason: "want os/arch or os/arch/variant"}
	if s == "" {
		bad.Reason = "is empty, as after a comma too many: " + bad.Reason
	}
	if strings.ContainsAny(s, "*, \t\r\n") {
		return Platform{}, bad
	}
	parts := strings.Split(s, "/")
	if len(parts) == 1 && s != "" && s != "local" {
		// Nothing is filled in from the machine that this runs on.
		bad.Reason += ", as in linux/" + s
	}
	if len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return Platform{}, bad
	}
	p := Platform{Architecture: parts[1]}
	if len(parts) == 3 {
		p.Variant = parts[2]
	}
	if strings.ContainsAny(p.Architecture+p.Variant, "()") {
		return Platform{}, bad
	}
	if err := parseOS(parts[0], &p); err != nil {
		return Platform{}, &PlatformError{Platform: s, Reason: err.Error()}
	}
	if err := CheckPlatform(p); err != nil {
		return Platform{}, &PlatformError{Platform: s, Reason: err.Error()}
	}
	return NormalizePlatform(p), nil
}

// parseOS reads os[(version[+feature]...)] into p, the spelling of
// containerd/platforms.
func parseOS(s string, p *Platform) error {
	name, options, ok := strings.Cut(s, "(")
	p.OS = name
	if name == "" || strings.ContainsAny(name, ")+%") {
		return errors.New("os is not a name")
	}
	if !ok {
		return nil
	}
	options, ok = strings.CutSuffix(options, ")")
	if !ok || strings.ContainsAny(options, "()") {
		return errors.New("os.version is not in one pair of parentheses")
	}
	for i, option := range strings.Split(options, "+") {
		text, err := url.PathUnescape(option)
		switch {
		case err != nil:
			return fmt.Errorf("os.version: %w", err)
		case i == 0:
			p.OSVersion = text
		case text == "":
			return errors.New("an os feature is empty")
		default:
			p.OSFeatures = append(p.OSFeatures, text)
		}
	}
	return nil
}

// NormalizePlatform maps the spellings of one platform to one value: arm64/v8
// is arm64, arm is arm/v7, x86_64 is amd64. It is for comparing; descriptors
// are never rewritten with it.
func NormalizePlatform(p Platform) Platform {
	n := platforms.Normalize(p)
	if p.OS == "" {
		// platforms fills in the system that this runs on.
		n.OS = ""
	}
	return n
}

// escapeOption keeps the marks of the spelling out of free text.
var escapeOption = strings.NewReplacer("%", "%25", "+", "%2B", "(", "%28", ")", "%29", "/", "%2F",
	" ", "%20", ",", "%2C", "*", "%2A", "\t", "%09", "\r", "%0D", "\n", "%0A")

// FormatPlatform writes os/arch[/variant], with os.version and os.features in
// parentheses: "windows(10.0.20348.1)/amd64", "windows(10.0.20348.1+win32k)/amd64".
// An empty platform is "unknown/unknown".
func FormatPlatform(p Platform) string {
	if p.OS == "" && p.Architecture == "" {
		return "unknown/unknown"
	}
	s := p.OS
	if p.OSVersion != "" || len(p.OSFeatures) > 0 {
		s += "(" + escapeOption.Replace(p.OSVersion)
		for _, f := range p.OSFeatures {
			s += "+" + escapeOption.Replace(f)
		}
		s += ")"
	}
	s += "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// PlatformKey is equal for two platforms that a runtime cannot tell apart: the
// normalised platform with os.version and os.features, in any order.
func PlatformKey(p Platform) string { return FormatPlatform(NormalizePlatform(p)) }

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

// PlatformsContradict reports whether a label and what an image config says cannot
// both be right. Variant and os.version are compared where both have one.
func PlatformsContradict(label, config Platform) bool {
	noVariant := label.Variant == "" || config.Variant == ""
	a, b := NormalizePlatform(label), NormalizePlatform(config)
	return a.OS != b.OS || a.Architecture != b.Architecture ||
		!noVariant && a.Variant != b.Variant ||
		a.OSVersion != "" && b.OSVersion != "" && a.OSVersion != b.OSVersion
}
