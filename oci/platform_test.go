package oci_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/oci"
)

func TestParsePlatform(t *testing.T) {
	for s, want := range map[string]oci.Platform{
		"linux/amd64":                  {OS: "linux", Architecture: "amd64"},
		"linux/amd64/v1":               {OS: "linux", Architecture: "amd64"},
		"linux/amd64/v3":               {OS: "linux", Architecture: "amd64", Variant: "v3"},
		"linux/x86_64":                 {OS: "linux", Architecture: "amd64"},
		"Linux/AMD64":                  {OS: "linux", Architecture: "amd64"},
		"linux/arm64":                  {OS: "linux", Architecture: "arm64"},
		"linux/arm64/v8":               {OS: "linux", Architecture: "arm64"},
		"linux/arm64/8":                {OS: "linux", Architecture: "arm64"},
		"linux/aarch64":                {OS: "linux", Architecture: "arm64"},
		"linux/arm64/v9":               {OS: "linux", Architecture: "arm64", Variant: "v9"},
		"linux/arm":                    {OS: "linux", Architecture: "arm", Variant: "v7"},
		"linux/arm/v7":                 {OS: "linux", Architecture: "arm", Variant: "v7"},
		"linux/arm/v6":                 {OS: "linux", Architecture: "arm", Variant: "v6"},
		"linux/armhf":                  {OS: "linux", Architecture: "arm", Variant: "v7"},
		"linux/armel":                  {OS: "linux", Architecture: "arm", Variant: "v6"},
		"macos/arm64":                  {OS: "darwin", Architecture: "arm64"},
		"linux/riscv64":                {OS: "linux", Architecture: "riscv64"},
		"linux/loong64":                {OS: "linux", Architecture: "loong64"},
		"linux/mips64le":               {OS: "linux", Architecture: "mips64le"},
		"wasip1/wasm":                  {OS: "wasip1", Architecture: "wasm"},
		"wasi/wasm32":                  {OS: "wasi", Architecture: "wasm32"},
		"freebsd/arm64":                {OS: "freebsd", Architecture: "arm64"},
		"plan9x/foo":                   {OS: "plan9x", Architecture: "foo"},
		"my.os/foo~1/bar:2":            {OS: "my.os", Architecture: "foo~1", Variant: "bar:2"},
		"unknown/unknown":              {OS: "unknown", Architecture: "unknown"},
		"windows(10.0.1)/amd64":        {OS: "windows", Architecture: "amd64", OSVersion: "10.0.1"},
		"windows(10.0.1+win32k)/amd64": {OS: "windows", Architecture: "amd64", OSVersion: "10.0.1", OSFeatures: []string{"win32k"}},
		"linux(+b+a)/amd64":            {OS: "linux", Architecture: "amd64", OSFeatures: []string{"a", "b"}},
		"x(a%2Fb%29)/y":                {OS: "x", Architecture: "y", OSVersion: "a/b)"},
	} {
		got, err := oci.ParsePlatform(s)
		if err != nil {
			t.Errorf("ParsePlatform(%q): %v", s, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParsePlatform(%q) (-want +got):\n%s", s, diff)
		}
	}
}

// Half a platform is not completed from the machine that this runs on.
func TestParsePlatformRefusesHalves(t *testing.T) {
	for _, s := range []string{
		"", "local", "linux", "amd64", "arm64", "linux/", "/amd64", "linux//v8", "linux/arm64/v8/x", "*", "linux/*",
		"linux/amd64,linux/arm64", "linux /amd64", "windows(10/amd64", "windows)/amd64", "linux/amd64(1)", "linux(a+)/amd64", "linux(%zz)/amd64", "(1)/amd64",
	} {
		var e *oci.PlatformError
		if p, err := oci.ParsePlatform(s); !errors.As(err, &e) || e.Platform != s {
			t.Errorf("ParsePlatform(%q) = %+v, %v; want a *PlatformError that names it", s, p, err)
		}
	}
}

func TestPlatformsARuntimeCannotTellApartHaveOneKey(t *testing.T) {
	p := func(os, arch, variant string) oci.Platform {
		return oci.Platform{OS: os, Architecture: arch, Variant: variant}
	}
	for _, c := range []struct {
		a, b oci.Platform
		same bool
	}{
		{p("linux", "arm64", ""), p("linux", "arm64", "v8"), true},
		{p("linux", "arm64", "8"), p("linux", "aarch64", ""), true},
		{p("linux", "arm64", "v9"), p("linux", "arm64", "v8"), false},
		{p("linux", "arm", ""), p("linux", "arm", "v7"), true},
		{p("linux", "arm", "v6"), p("linux", "arm", "v7"), false},
		{p("linux", "arm", "v6"), p("linux", "arm", ""), false},
		{p("linux", "amd64", ""), p("linux", "amd64", "v1"), true},
		{p("linux", "amd64", ""), p("linux", "amd64", "v2"), false},
		{p("linux", "wasm", ""), p("wasip1", "wasm", ""), false},
		{p("", "amd64", ""), p("linux", "amd64", ""), false},
		{oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.17763.1"}, oci.Platform{OS: "windows", Architecture: "amd64", OSVersion: "10.0.20348.1"}, false},
		{oci.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{"a", "b"}}, oci.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{"b", "a", "a"}}, true},
		{oci.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{"a"}}, p("linux", "amd64", ""), false},
		{oci.Platform{OS: "x", Architecture: "y", OSVersion: "1+f"}, oci.Platform{OS: "x", Architecture: "y", OSVersion: "1", OSFeatures: []string{"f"}}, false},
	} {
		a, b := oci.PlatformKey(c.a), oci.PlatformKey(c.b)
		if (a == b) != c.same {
			t.Errorf("%+v and %+v: keys %q and %q", c.a, c.b, a, b)
		}
	}
}

func TestSatisfiesPlatformIsExact(t *testing.T) {
	for _, c := range []struct {
		want, have string
		ok         bool
	}{
		{"linux/arm64", "linux/arm64/v8", true},
		{"linux/arm64/v8", "linux/arm64", true},
		{"linux/arm", "linux/arm/v7", true},
		{"linux/arm/v6", "linux/arm/v7", false},
		{"linux/arm/v7", "linux/arm/v6", false},
		{"linux/amd64", "linux/amd64/v2", false},
		{"windows/amd64", "windows(10.0.1)/amd64", true},
		{"windows(10.0.1)/amd64", "windows(10.0.2)/amd64", false},
		{"windows(10.0.1)/amd64", "windows/amd64", false},
		{"windows(+win32k)/amd64", "windows(10+win32k+x)/amd64", true},
		{"windows(+win32k)/amd64", "windows/amd64", false},
		{"wasi/wasm32", "wasi/wasm32", true},
		{"plan9x/foo", "plan9x/foo", true},
		{"linux/wasm", "wasip1/wasm", false},
		{"linux/amd64", "unknown/unknown", false},
	} {
		want, err := oci.ParsePlatform(c.want)
		if err != nil {
			t.Fatal(err)
		}
		have, err := oci.ParsePlatform(c.have)
		if err != nil {
			t.Fatal(err)
		}
		if got := oci.SatisfiesPlatform(want, have); got != c.ok {
			t.Errorf("%s for %s: %v", c.have, c.want, got)
		}
	}
}

func TestUnknownPlatforms(t *testing.T) {
	for _, p := range []*oci.Platform{nil, {}, {OS: "unknown", Architecture: "unknown"}} {
		if !oci.IsUnknownPlatform(p) {
			t.Errorf("%+v is known", p)
		}
	}
	for _, p := range []*oci.Platform{{OS: "linux"}, {Architecture: "wasm", OS: "unknown"}, {OS: "linux", Architecture: "amd64"}} {
		if oci.IsUnknownPlatform(p) {
			t.Errorf("%+v is unknown", p)
		}
	}
	if got := oci.FormatPlatform(oci.Platform{}); got != "unknown/unknown" {
		t.Errorf("empty platform is written %q", got)
	}
}

// FuzzParsePlatform: what parses is written back to the same platform.
func FuzzParsePlatform(f *testing.F) {
	for _, s := range []string{"linux/arm64/v8", "windows(10.0+win32k)/amd64", "a(%2F)/b", "plan9x/foo", "linux", "x(+a+b)/y/z", "linux/arm", "macos/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := oci.ParsePlatform(s)
		if err != nil {
			return
		}
		again, err := oci.ParsePlatform(oci.FormatPlatform(p))
		if err != nil {
			t.Fatalf("%q is written %q: %v", s, oci.FormatPlatform(p), err)
		}
		if oci.PlatformKey(p) != oci.PlatformKey(again) || !oci.SatisfiesPlatform(p, again) {
			t.Fatalf("%q: %+v became %+v", s, p, again)
		}
	})
}
