package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/oci"
)

// Expand names one source per platform by a template, in which the first OS,
// ARCH and VARIANT stand for the parts of the platform, as manifest-tool does:
// REPOSITORY:OS-ARCHVARIANT. The parts are taken as they are written, and a
// platform without a variant leaves that out. Errors: [*oci.PlatformError],
// [*ref.Error].
func Expand(template string, platforms []string) ([]manifold.Input, error) {
	if !strings.Contains(template, "ARCH") && !strings.Contains(template, "OS") {
		return nil, errors.New("the template has neither OS nor ARCH in it: every platform would be the same image")
	}
	var out []manifold.Input
	for _, written := range platforms {
		p, err := oci.ParsePlatform(written)
		if err != nil {
			return nil, err
		}
		parts := append(strings.Split(written, "/"), "")
		p.Architecture, p.Variant = parts[1], parts[2]
		name := strings.Replace(template, "ARCH", p.Architecture, 1)
		name = strings.Replace(name, "OS", p.OS, 1)
		name = strings.Replace(name, "VARIANT", p.Variant, 1)
		in, err := Source(name)
		if err != nil {
			return nil, fmt.Errorf("template for %s: %w", written, err)
		}
		in.Platform = &p
		out = append(out, in)
	}
	return out, nil
}
