package printable_test

import (
	"bytes"
	"testing"

	"github.com/manifold-oci/manifold/internal/printable"
)

func TestWhatMovesTheCursorIsShownAndNotDone(t *testing.T) {
	for in, want := range map[string]string{
		"plain, äöü 漢字":         "plain, äöü 漢字",
		"a\x1b]0;evil\ab":       `a\x1b]0;evil\ab`,
		"\u009b31m \u202e":      `\u009b31m \u202e`,
		"\xff\x9b":              `\xff\x9b`,
		"one\n\ttwo":            "one\n\ttwo",
		"over\rwritten\x00\x7f": `over\rwritten\x00\x7f`,
	} {
		if got := printable.Text(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := printable.Line("a\nb\tc"); got != `a\nb\tc` {
		t.Errorf("%q", got)
	}
	var out bytes.Buffer
	if n, err := printable.Writer(&out).Write([]byte("a\x1b\r\nb\r")); n != 6 || err != nil || out.String() != `a\x1b`+"\n"+`b\r` {
		t.Errorf("%q, %d, %v", out.String(), n, err)
	}
}
