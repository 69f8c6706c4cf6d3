package cli

import (
	"errors"
	"strings"

	"github.com/manifold-oci/manifold/ref"
)

// mirrorFlag is a flag for mirrors, HOST=MIRROR[/PREFIX], by host.
type mirrorFlag map[string][]string

func (m mirrorFlag) String() string { return "" }

// Type is what help calls the value.
func (m mirrorFlag) Type() string { return "strings" }

// Set adds mirrors, separated by commas. A host by itself is a mirror of Docker
// Hub, as in Docker's own setting.
func (m mirrorFlag) Set(s string) error {
	for one := range strings.SplitSeq(s, ",") {
		host, mirror, ok := strings.Cut(one, "=")
		if !ok {
			host, mirror = "docker.io", one
		}
		name, _, _ := strings.Cut(mirror, "/")
		dotless := ok && name != "" && !strings.ContainsAny(name, ".:") // no reference begins so, a URL may
		if !isHost(host) || !isHost(mirror) && !(dotless && isHost("local."+mirror)) {
			return errors.New("want HOST=MIRROR[/PREFIX], as docker.io=mirror.example:5000")
		}
		m[host] = append(m[host], mirror)
	}
	return nil
}

// isHost reports whether a reference can begin with s, a host and perhaps a path.
func isHost(s string) bool {
	host, _, _ := strings.Cut(s, "/")
	r, err := ref.Parse(s + "/x")
	return err == nil && r.Tag == "" && r.Digest == "" && r.Host == host
}
