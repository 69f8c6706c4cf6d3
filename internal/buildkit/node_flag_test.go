package buildkit

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseNodeFlag(t *testing.T) {
	here, err := filepath.Abs("ca.pem")
	if err != nil {
		t.Fatal(err)
	}
	arm := parsePlatforms(t, "linux/arm64", "linux/arm/v7")
	for in, want := range map[string]NodeFlag{
		"unix:///run/b.sock":                              {Endpoint: "unix:///run/b.sock"},
		"linux/arm64,linux/arm/v7=unix:///run/b.sock":     {Platforms: arm, Endpoint: "unix:///run/b.sock"},
		"linux/arm64, linux/arm/v7=tcp://10.0.0.2:1234":   {Platforms: arm, Endpoint: "tcp://10.0.0.2:1234"},
		"tcp://[::1]:1234":                                {Endpoint: "tcp://[::1]:1234"},
		"ssh://me@host:22/run/b.sock":                     {Endpoint: "ssh://me@host:22/run/b.sock"},
		"docker-container://b?context=x":                  {Endpoint: "docker-container://b?context=x"},
		"kube-pod://b?namespace=x":                        {Endpoint: "kube-pod://b?namespace=x"},
		"tcp://h:1?cacert=ca.pem&cert=/c&key=/k":          {Endpoint: "tcp://h:1", TLS: map[string]string{"cacert": here, "cert": "/c", "key": "/k"}},
		"linux/arm64,linux/arm/v7=tcp://h:1?servername=x": {Platforms: arm, Endpoint: "tcp://h:1", TLS: map[string]string{"servername": "x"}},
	} {
		got, err := ParseNodeFlag(in)
		if err != nil {
			t.Errorf("%s: %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", in, diff)
		}
	}
}

func TestParseNodeFlagRefuses(t *testing.T) {
	for in, reason := range map[string]string{
		"":                            "without a scheme",
		"host:1234":                   "unknown scheme",
		"/run/b.sock":                 "without a scheme",
		"unix://":                     "without a path",
		"tcp://host":                  "host and port",
		"tcp://:1":                    "host and port",
		"tcp://h:1?insecure=1":        `unknown "insecure"`,
		"ssh://":                      "without a name",
		"docker-container://":         "without a name",
		"npipe:////./pipe/x":          "unknown scheme",
		"http://h:1":                  "unknown scheme",
		"=unix:///b":                  "no platform",
		"linux/arm64=":                "without a scheme",
		"linux/arm64,=unix:///b":      "",
		"linux=amd64=unix:///b":       "",
		"ssh://me:secret@host\x7f/":   "",
		"tcp://me:secret@h":           "host and port",
		"linux/amd64=tcp://h:1?%zz=1": "query",
	} {
		_, err := ParseNodeFlag(in)
		var flag *NodeFlagError
		if !errors.As(err, &flag) || !strings.Contains(flag.Reason, reason) {
			t.Errorf("%q: %v", in, err)
		}
	}
}

// TestPasswordOfAnEndpointIsNotShown: whatever is wrong with it.
func TestPasswordOfAnEndpointIsNotShown(t *testing.T) {
	for _, s := range []string{
		"tcp://me:SECRET@h", "bad://u:SECRET@h", "linux/amd64=bad://u:SECRET@h", "linux/amd64,linux/arm64=bad://u:SE=CRET@h", "bad://u:SE CRET@h",
		"tcp://u:SE/CRET@h:1", "u:SECRET@h:1234", "linux/amd64=u:SECRET@h", "no/such/thing/at/all=tcp://u:SECRET@h:1", "tcp://h:1?token=SECRET", "u:SE=CRET@h",
		"kube-pod://u:SE%zzCRET@pod",
	} {
		_, err := ParseNodeFlag(s)
		if err == nil || strings.Contains(err.Error(), "SE") || strings.Contains(err.Error(), "CRET") {
			t.Errorf("%s: %v", s, err)
		}
	}
}

func FuzzParseNodeFlag(f *testing.F) {
	for _, s := range []string{"linux/amd64=unix:///b", "tcp://h:1?cacert=x", "a=b=c", "linux/amd64,linux/arm64=ssh://h", "=", "://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		flag, err := ParseNodeFlag(s)
		var e *NodeFlagError
		if err != nil && !errors.As(err, &e) {
			t.Fatalf("%q: %T", s, err)
		}
		if err == nil && !strings.Contains(flag.Endpoint, "://") {
			t.Fatalf("%q: endpoint %q", s, flag.Endpoint)
		}
	})
}
