package build

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
)

func parse(t *testing.T, names string) []oci.Platform {
	t.Helper()
	var out []oci.Platform
	for name := range strings.FieldsSeq(names) {
		p, err := oci.ParsePlatform(name)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// candidates reads "declared | listed" per node.
func candidates(t *testing.T, nodes ...string) []Candidate {
	t.Helper()
	var out []Candidate
	for i, n := range nodes {
		declared, listed, _ := strings.Cut(n, "|")
		out = append(out, Candidate{Name: string(rune('a' + i)), Declared: parse(t, declared), Listed: parse(t, listed)})
	}
	return out
}

func TestAssign(t *testing.T) {
	for _, c := range []struct {
		name, platforms string
		nodes           []string
		emulate         bool
		want            string
	}{
		{"declared wins over native", "linux/arm64", []string{"|linux/arm64", "linux/arm64|"}, false, "linux/arm64=b"},
		{"most native wins", "linux/arm64", []string{"|linux/amd64 linux/386 linux/arm64", "|linux/arm64 linux/amd64"}, false, "linux/arm64=b"},
		{"each its own", "linux/arm64 linux/amd64", []string{"|linux/amd64 linux/arm64", "|linux/arm64 linux/amd64"}, false, "linux/arm64=b linux/amd64=a"},
		{"equal nodes share", "linux/amd64 linux/arm64 linux/s390x", []string{"linux/amd64 linux/arm64 linux/s390x|", "linux/amd64 linux/arm64 linux/s390x|"}, false,
			"linux/amd64=a linux/arm64=b linux/s390x=a"},
		{"spelling does not matter", "linux/arm64/v8 linux/arm", []string{"linux/arm64|", "linux/arm/v7|"}, false, "linux/arm64=a linux/arm/v7=b"},
		{"repeated platforms are built once", "linux/amd64 linux/arm64 linux/x86_64 linux/arm64/v8", []string{"linux/amd64 linux/arm64|"}, false, "linux/amd64=a linux/arm64=a"},
		{"variants are not interchangeable", "linux/arm/v6", []string{"linux/arm/v7|"}, false, "linux/arm/v6: no node builds this platform: a has linux/arm/v7"},
		{"windows of any version", "windows/amd64", []string{"|windows(10.0.20348.1)/amd64"}, false, "windows/amd64=a"},
		{"windows of that version", "windows(10.0.17763.1)/amd64", []string{"|windows(10.0.20348.1)/amd64", "|windows(10.0.17763.1)/amd64"}, false, "windows(10.0.17763.1)/amd64=b"},
		{"nobody has it", "linux/amd64 linux/s390x", []string{"linux/amd64|", "|linux/arm64 linux/arm/v7", "|"}, false,
			"linux/s390x: no node builds this platform: a has linux/amd64; b has linux/arm64, linux/arm/v7; c has none"},
		{"emulated on the same system", "linux/s390x", []string{"|windows/amd64", "|linux/amd64"}, true, "linux/s390x=b!"},
		{"emulated anywhere", "freebsd/amd64", []string{"|linux/amd64", "|linux/amd64"}, true, "freebsd/amd64=a!"},
		{"emulation is the last resort", "linux/amd64", []string{"|linux/arm64", "|linux/386 linux/amd64"}, true, "linux/amd64=b"},
		{"no node", "linux/amd64", nil, true, "linux/amd64: no node builds this platform: "},
	} {
		as, err := Assign(parse(t, c.platforms), candidates(t, c.nodes...), c.emulate)
		if diff := cmp.Diff(c.want, show(as, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		var none *NoNodeError
		if err != nil && !errors.As(err, &none) {
			t.Errorf("%s: error is a %T", c.name, err)
		}
	}
}

func show(as []Assignment, err error) string {
	if err != nil {
		return err.Error()
	}
	var out []string
	for _, a := range as {
		s := fmt.Sprintf("%s=%c", oci.FormatPlatform(a.Platform), 'a'+rune(a.Node))
		if a.Emulated {
			s += "!"
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}
