package render

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"linux/amd64 ├─ žluť 日本 🎉 1 MB": "linux/amd64 ├─ žluť 日本 🎉 1 MB",
		"\x1b]0;x\x07":           `\x1b]0;x\a`,
		"\u009b31m\u202e":        `\u009b31m\u202e`,
		"a\nb\tc\r\n":            "a\nb\tc\\r\n",
		"\xff\x9b":               `\xff\x9b`,
		"\u2028\x7f\u200b\ufffd": `\u2028\x7f\u200b\ufffd`,
		`C:\dir "x"`:             `C:\dir "x"`,
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) is %q, want %q", in, got, want)
		}
	}
	if got := Line("a\nerror: b\tc"); got != `a\nerror: b\tc` {
		t.Errorf("got %q", got)
	}
}

func TestJSONHoldsNothingForATerminalAndReadsBackAsItWas(t *testing.T) {
	want := map[string]string{"a": "\x1b[2J\u009b\u202e\x7f\U000e0001 ž🎉\n<&>"}
	var b strings.Builder
	if err := JSON(&b, want); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsFunc(b.String(), func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }) {
		t.Errorf("got %q", b.String())
	}
	var got map[string]string
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil || got["a"] != want["a"] {
		t.Errorf("%v: read back %q", err, got["a"])
	}
}

func FuzzPrintable(f *testing.F) {
	f.Add("a\x1b[2J\xff\u202e\n")
	f.Fuzz(func(t *testing.T, s string) {
		bad := func(r rune) bool { return !unicode.IsPrint(r) }
		if got := Line(s); strings.ContainsFunc(got, bad) || Line(got) != got {
			t.Errorf("%q became %q", s, got)
		}
	})
}
