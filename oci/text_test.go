package oci_test

import (
	"errors"
	"testing"

	"github.com/manifold-oci/manifold/oci"
)

func TestTextsThatAreNotUTF8AreRefused(t *testing.T) {
	const bad = "a\xffb"
	var text *oci.TextError
	for name, err := range map[string]error{
		"text": oci.CheckTexts("é", bad), "key": oci.CheckAnnotations(map[string]string{"a": "b", bad: ""}), "value": oci.CheckAnnotations(map[string]string{"a": bad}),
		"platform": oci.CheckPlatform(oci.Platform{OS: "linux", Architecture: "amd64", OSFeatures: []string{bad}}),
	} {
		if !errors.As(err, &text) || text.Text != bad {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := errors.Join(oci.CheckTexts("é", "\ufffd", ""), oci.CheckAnnotations(map[string]string{"a": "☃"})); err != nil {
		t.Error(err)
	}
	for _, s := range []string{"linux/am\xff", "li\xff/amd64", "windows(1%FF)/amd64"} {
		var refused *oci.PlatformError
		if p, err := oci.ParsePlatform(s); !errors.As(err, &refused) {
			t.Errorf("%q is %+v, %v", s, p, err)
		}
	}
}
