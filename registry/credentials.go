package registry

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// DockerConfig names the places that Docker and its relatives keep logins in.
// They are read when a host first wants a login, each once, in the order of the
// fields. The zero value has no logins.
type DockerConfig struct {
	// AuthConfig is the content of DOCKER_AUTH_CONFIG, the same JSON as a
	// config file.
	AuthConfig string
	// Path of Docker's config.json. A file that is not there is empty.
	Path string
	// Extra are further files of the same form, as podman's auth.json.
	Extra []string
	// HelperTimeout bounds one run of a credential helper; 30 s when zero.
	HelperTimeout time.Duration
}

const defaultHelperTimeout = 30 * time.Second

// DockerCredentials returns a function for Options.Credentials that finds logins
// as Docker does, and by namespace as podman does.
//
// For each place: the helper in credHelpers for the host, else the one in
// credsStore, else the entry of auths with the longest matching key, a host or a
// host and the start of a repository; http:// and https://, /v1/ and /v2/ do
// not matter, the port does. An entry without a login means that the store has
// it. A helper that does not know the host is no error, one that is missing is
// one if the file says that the host has a login. Errors name the file.
func DockerCredentials(cfg DockerConfig) func(ctx context.Context, host string) (Credential, error) {
	if cfg.HelperTimeout <= 0 {
		cfg.HelperTimeout = defaultHelperTimeout
	}
	places := places(cfg)
	return func(ctx context.Context, host string) (Credential, error) {
		target := host
		if repository := tryOf(ctx).repository; repository != "" {
			target += "/" + repository
		}
		var none Credential
		for _, p := range places {
			c, err := p.find(ctx, host, target)
			if err != nil || !c.anonymous() {
				return c, err
			}
			if c.Source != "" {
				none.Source = c.Source
			}
		}
		return none, nil
	}
}

// place is one source of logins.
type place struct {
	// name is printed.
	name    string
	load    func() (dockerFile, error)
	timeout time.Duration
}

func places(cfg DockerConfig) []place {
	var out []place
	add := func(name string, load func() (dockerFile, error)) {
		out = append(out, place{name: name, load: sync.OnceValues(load), timeout: cfg.HelperTimeout})
	}
	if cfg.AuthConfig != "" {
		add("DOCKER_AUTH_CONFIG", func() (dockerFile, error) { return parseDockerFile([]byte(cfg.AuthConfig)) })
	}
	for _, path := range append([]string{cfg.Path}, cfg.Extra...) {
		if path != "" {
			add(path, func() (dockerFile, error) { return readDockerFile(path) })
		}
	}
	return out
}

// find looks a login up in this place. An anonymous credential with a Source
// says why there is none.
func (p place) find(ctx context.Context, host, target string) (Credential, error) {
	file, err := p.load()
	if err != nil {
		return Credential{}, fmt.Errorf("%s: %w", p.name, err)
	}
	entry, listed := file.entry(target)
	if helper := file.helper(target); helper != "" {
		c, err := p.ask(ctx, helper, host, listed)
		if err != nil || !c.anonymous() {
			return c, err
		}
		if entry.empty() {
			return c, nil
		}
	}
	c, err := entry.credential()
	if err != nil {
		return Credential{}, fmt.Errorf("%s: %w", p.name, err)
	}
	if !c.anonymous() {
		c.Source = p.name
	}
	return c, nil
}
