package buildkit

import (
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
)

// NodeFlag is one --node: an endpoint and the platforms it is to build.
type NodeFlag struct {
	// Platforms is empty when the node is to be asked for them.
	Platforms []oci.Platform
	// Endpoint is a URL with one of the schemes unix, tcp, ssh,
	// docker-container and kube-pod.
	Endpoint string
	// TLS has what a tcp endpoint was given in its query: cacert, cert, key
	// (absolute paths) and servername. Nil for none.
	TLS map[string]string
}

// NodeFlagError reports a --node that does not parse.
type NodeFlagError struct {
	Value  string
	Reason string
}

func (e *NodeFlagError) Error() string { return fmt.Sprintf("--node %q: %s", e.Value, e.Reason) }

// ParseNodeFlag reads [PLATFORM[,PLATFORM]=]ENDPOINT. A tcp endpoint takes TLS
// files in its query, tcp://host:1234?cacert=ca.pem&cert=c.pem&key=k.pem, with
// servername if the certificate is for another name. The error is a
// *NodeFlagError.
func ParseNodeFlag(s string) (NodeFlag, error) {
	fail := func(format string, args ...any) (NodeFlag, error) {
		return NodeFlag{}, &NodeFlagError{Value: withoutLogin(s), Reason: fmt.Sprintf(format, args...)}
	}
	platforms, endpoint := "", s
	if before, after, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(before, ":@") {
		platforms, endpoint = before, after
		if platforms == "" {
			return fail("no platform before the equals sign")
		}
	}
	var f NodeFlag
	for p := range strings.SplitSeq(platforms, ",") {
		if platforms == "" {
			break
		}
		parsed, err := oci.ParsePlatform(strings.TrimSpace(p))
		if err != nil {
			return fail("%v", err)
		}
		f.Platforms = append(f.Platforms, parsed)
	}
	var err error
	if f.Endpoint, f.TLS, err = parseEndpoint(endpoint); err != nil {
		return fail("%v", err)
	}
	return f, nil
}

func parseEndpoint(s string) (string, map[string]string, error) {
	u, err := url.Parse(s)
	if err != nil {
		return "", nil, fmt.Errorf("endpoint is not a URL")
	}
	switch u.Scheme {
	case "unix":
		if u.Host+u.Path == "" {
			return "", nil, fmt.Errorf("unix endpoint without a path")
		}
		return s, nil, nil
	case "tcp":
		return tcpEndpoint(u)
	case "ssh", "docker-container", "kube-pod":
		if u.Host == "" {
			return "", nil, fmt.Errorf("%s endpoint without a name", u.Scheme)
		}
		return s, nil, nil
	case "":
		return "", nil, fmt.Errorf("endpoint without a scheme: unix, tcp, ssh, docker-container or kube-pod")
	}
	return "", nil, fmt.Errorf("unknown scheme %q: one of unix, tcp, ssh, docker-container or kube-pod", u.Scheme)
}

// tcpEndpoint takes the TLS files out of the query. Relative paths are made
// absolute, since buildx's remote driver accepts no others.
func tcpEndpoint(u *url.URL) (string, map[string]string, error) {
	if u.Hostname() == "" || u.Port() == "" {
		return "", nil, fmt.Errorf("tcp endpoint needs host and port")
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "", nil, fmt.Errorf("query does not parse")
	}
	var tls map[string]string
	for _, k := range slices.Sorted(maps.Keys(query)) {
		v := query.Get(k)
		switch k {
		case "cacert", "cert", "key":
			if v, err = filepath.Abs(v); err != nil {
				return "", nil, err
			}
		case "servername":
		default:
			return "", nil, fmt.Errorf("unknown %q in the query: one of cacert, cert, key, servername", k)
		}
		if tls == nil {
			tls = map[string]string{}
		}
		tls[k] = v
	}
	bare := url.URL{Scheme: u.Scheme, Host: u.Host}
	return bare.String(), tls, nil
}

// withoutLogin is [PLATFORM,...=]ENDPOINT without the login that the endpoint may
// have, well formed or not.
func withoutLogin(s string) string {
	if platforms, endpoint, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(platforms, ":@") {
		return platforms + "=" + redact.Word(endpoint)
	}
	return redact.Word(s)
}
