package httpchain

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestChallengeIsChosenFromAllThatAreOffered(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		want  string
	}{
		"two lines":           {[]string{"Negotiate", `Basic realm="r"`}, `Basic realm="r"`},
		"one line":            {[]string{`Negotiate, Basic realm="r"`}, `Basic realm="r"`},
		"comma in quotes":     {[]string{`Bearer realm="http://a/t",service="a,b",scope="x"`}, `Bearer realm="http://a/t",service="a,b",scope="x"`},
		"lower case":          {[]string{`basic realm="r"`}, `Basic realm="r"`},
		"bearer before basic": {[]string{`Basic realm="r"`, `bearer realm="http://a/t"`}, `Bearer realm="http://a/t"`},
		"both in one line":    {[]string{`Basic realm="r", Bearer realm="http://a/t", service="s"`}, `Bearer realm="http://a/t",service="s"`},
		"token68":             {[]string{`Negotiate YII+/a==, Basic realm="r"`}, `Basic realm="r"`},
		"spaces around sign":  {[]string{`Bearer realm = "http://a/t" , service= s`}, `Bearer realm="http://a/t",service="s"`},
		"unquoted realm":      {[]string{`Bearer realm=https://a/t,service=s`}, `Bearer realm="https://a/t",service="s"`},
		"escaped quote":       {[]string{`Basic realm="a\"b"`}, `Basic realm="a\"b"`},
		"names in upper case": {[]string{`Bearer Realm="http://a/t",SERVICE="s"`}, `Bearer realm="http://a/t",service="s"`},
		"quote never closed":  {[]string{`Basic realm="r`}, `Basic realm="r"`},
		"only unknown":        {[]string{"Negotiate", "Digest realm=\"r\""}, ""},
		"none":                {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, ok := Choose(ParseChallenges(tc.lines))
			if ok != (tc.want != "") || c.String() != tc.want {
				t.Errorf("chose %q, %v; want %q", c.String(), ok, tc.want)
			}
		})
	}
}

func FuzzChallengesSurviveTheirOwnSpelling(f *testing.F) {
	for _, s := range []string{
		`Negotiate, Basic realm="r"`, `Bearer realm="http://a/t",service="a,b",scope="x"`, `Basic realm="a\"b`,
		`Negotiate YII+/a==, bearer realm = x`, `="", a=,,`, "\x00\"", `Bearer realm="é\`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, ok := Choose(ParseChallenges([]string{s}))
		if !ok {
			return
		}
		if !printable(c) {
			return
		}
		again, _ := Choose(ParseChallenges([]string{c.String()}))
		if d := cmp.Diff(c, again); d != "" {
			t.Errorf("%q is spelled %q, which reads differently: %s", s, c.String(), d)
		}
	})
}

// printable reports whether quoting a challenge needs no escapes but \" and \\,
// the only ones that HTTP knows. Others reach only the reader that
// understands Go's.
func printable(c Challenge) bool {
	for _, p := range c.Params {
		for _, r := range p.Value {
			if r < ' ' || r > '~' {
				return false
			}
		}
	}
	return true
}
