package oci_test

import (
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

func TestCompanion(t *testing.T) {
	short, long := digest.FromString("a"), digest.SHA512.FromString("a")
	for tag, want := range map[string]struct {
		subject digest.Digest
		kind    string
	}{
		"sha256-" + short.Encoded():                  {short, ""},
		"sha512-" + long.Encoded():                   {long, ""},
		"sha256-" + short.Encoded() + ".sig":         {short, "sig"},
		"sha256-" + short.Encoded() + ".att":         {short, "att"},
		"sha256-" + short.Encoded() + ".sbom":        {short, "sbom"},
		"sha512-" + long.Encoded() + ".sig":          {long, "sig"},
		"sha256-" + short.Encoded() + ".":            {},
		"sha256-" + short.Encoded() + ".sig.1":       {},
		"sha256-" + short.Encoded() + ".tar":         {},
		"sha256-" + short.Encoded() + "0":            {},
		"sha256-" + short.Encoded()[1:]:              {},
		"sha256-" + strings.ToUpper(short.Encoded()): {},
		"sha256:" + short.Encoded():                  {},
		"sha512-" + short.Encoded():                  {},
		"v1-sha256-" + short.Encoded():               {},
		"sha256":                                     {},
		"1.sig":                                      {},
		"":                                           {},
	} {
		subject, kind, ok := oci.Companion(tag)
		if subject != want.subject || kind != want.kind || ok != (want.subject != "") {
			t.Errorf("%q: %s, %q, %t", tag, subject, kind, ok)
		}
	}
}
