package registry_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/registry"
)

// config writes a config file and returns its path.
func config(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	noError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// helper puts a credential helper on the PATH. It appends what it is asked to a
// file, whose path is returned.
func helper(t *testing.T, name, script string) (asked string) {
	t.Helper()
	dir := t.TempDir()
	asked = filepath.Join(dir, "asked")
	body := "#!/bin/sh\nserver=$(cat)\necho \"$server\" >> " + asked + "\n" + script + "\n"
	noError(t, os.WriteFile(filepath.Join(dir, "docker-credential-"+name), []byte(body), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return asked
}

const helperLogin = `echo '{"ServerURL":"x","Username":"hu","Secret":"hp"}'`

func lookUp(t *testing.T, cfg registry.DockerConfig, host string) registry.Credential {
	t.Helper()
	c, err := registry.DockerCredentials(cfg)(t.Context(), host)
	noError(t, err)
	return c
}

func TestKeysOfLoginsMatchInEveryForm(t *testing.T) {
	for key, want := range map[string]map[string]bool{
		"reg.local:5000":              {"reg.local:5000": true, "reg.local": false, "reg.local:5001": false},
		"https://reg.local:5000":      {"reg.local:5000": true},
		"https://reg.local:5000/v1/":  {"reg.local:5000": true},
		"http://reg.local:5000/v2/":   {"reg.local:5000": true},
		"https://reg.local:5000/":     {"reg.local:5000": true},
		"REG.local:5000":              {"reg.local:5000": true},
		"reg.local":                   {"reg.local:5000": false, "reg.local": true, "reg.local.evil": false},
		"[::1]:5000":                  {"[::1]:5000": true, "[::1]": false},
		"myreg:80":                    {"myreg:80": true, "myreg": false},
		"https://index.docker.io/v1/": {"docker.io": true, "index.docker.io.evil": false},
		"docker.io":                   {"docker.io": true},
	} {
		cfg := registry.DockerConfig{Path: config(t, `{"auths":{"`+key+`":{"auth":"dTpw"}}}`)}
		for host, found := range want {
			c := lookUp(t, cfg, host)
			if got := c.Username == "u" && c.Password == "p"; got != found {
				t.Errorf("key %s, host %s: found %v, want %v", key, host, got, found)
			}
			if found && c.Source != cfg.Path {
				t.Errorf("source %q", c.Source)
			}
		}
	}
}

func TestLongestNamespaceWins(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("team", "p"))
	other := registrytest.Distribution(t, registrytest.BasicAuth("other", "p"))
	img := image(t)
	r.Push("team/a/img", "1", img)
	other.Push("any/img", "1", img)
	// "right" and "wrong" are users; only the first may come through.
	cfg := registry.DockerConfig{Path: config(t, `{"auths":{
		"`+r.Host+`":{"username":"wrong","password":"p"},
		"`+r.Host+`/team":{"username":"wrong","password":"p"},
		"`+r.Host+`/team/a":{"username":"team","password":"p"},
		"`+r.Host+`/team/a/img2":{"username":"wrong","password":"p"},
		"`+other.Host+`":{"username":"other","password":"p"}}}`)}
	c := registry.NewClient(registry.Options{Credentials: registry.DockerCredentials(cfg)})
	_, err := on(t, c, r.Host, "team/a/img").Manifest(t.Context(), "1")
	noError(t, err)
	_, err = on(t, c, other.Host, "any/img").Manifest(t.Context(), "1")
	noError(t, err)
	if _, err = on(t, c, r.Host, "team/img").Manifest(t.Context(), "1"); !registry.Denied(err) {
		t.Errorf("another namespace got in: %v", err)
	}
}

func TestEmptyEntryMeansThatTheStoreHasIt(t *testing.T) {
	for _, spelling := range []string{"credsStore", "credSstore", "credsstore"} {
		asked := helper(t, "fake", helperLogin)
		cfg := registry.DockerConfig{Path: config(t, `{"auths":{"reg.local:5000":{}},"`+spelling+`":"fake","unknown":1}`)}
		c := lookUp(t, cfg, "reg.local:5000")
		if c.Username != "hu" || c.Password != "hp" || !strings.Contains(c.Source, "docker-credential-fake") || !strings.Contains(c.Source, cfg.Path) {
			t.Errorf("%s: got %+v", spelling, c)
		}
		b, _ := os.ReadFile(asked)
		if string(b) != "reg.local:5000\n" {
			t.Errorf("%s: the helper was asked %q", spelling, b)
		}
	}
}

func TestHelperIsAskedForDockerHubByItsOldName(t *testing.T) {
	asked := helper(t, "fake", helperLogin)
	lookUp(t, registry.DockerConfig{Path: config(t, `{"credHelpers":{"docker.io":"fake"}}`)}, "docker.io")
	if b, _ := os.ReadFile(asked); string(b) != "https://index.docker.io/v1/\n" {
		t.Errorf("asked %q", b)
	}
}

func TestIdentityTokenOfAHelper(t *testing.T) {
	helper(t, "fake", `echo '{"ServerURL":"x","Username":"<token>","Secret":"identity"}'`)
	if c := lookUp(t, registry.DockerConfig{Path: config(t, `{"credsStore":"fake"}`)}, "r"); c.RefreshToken != "identity" || c.Username != "" {
		t.Errorf("got %+v", c)
	}
}

func TestHelpersThatFail(t *testing.T) {
	t.Run("missing, and the host has a login", func(t *testing.T) {
		cfg := registry.DockerConfig{Path: config(t, `{"credsStore":"nosuchstore","auths":{"127.0.0.1:5000":{"auth":"dTpw"}}}`)}
		_, err := registry.DockerCredentials(cfg)(t.Context(), "127.0.0.1:5000")
		if err == nil || !strings.Contains(err.Error(), "docker-credential-nosuchstore") || !strings.Contains(err.Error(), cfg.Path) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("missing, and the host has none", func(t *testing.T) {
		cfg := registry.DockerConfig{Path: config(t, `{"credsStore":"nosuchstore"}`)}
		c := lookUp(t, cfg, "public.example")
		if c.Username != "" || !strings.Contains(c.Source, "docker-credential-nosuchstore") {
			t.Errorf("got %+v, want anonymous with the reason", c)
		}
	})
	t.Run("of another host", func(t *testing.T) {
		asked := helper(t, "other", "exit 1")
		c := lookUp(t, registry.DockerConfig{Path: config(t, `{"credHelpers":{"other.example":"other"}}`)}, "127.0.0.1:5000")
		if c != (registry.Credential{}) {
			t.Errorf("got %+v", c)
		}
		if _, err := os.Stat(asked); err == nil {
			t.Error("it was run")
		}
	})
	t.Run("not found", func(t *testing.T) {
		helper(t, "empty", `echo "credentials not found in native keychain"; exit 1`)
		if c := lookUp(t, registry.DockerConfig{Path: config(t, `{"credsStore":"empty"}`)}, "r"); c != (registry.Credential{}) {
			t.Errorf("got %+v", c)
		}
	})
	t.Run("error", func(t *testing.T) {
		helper(t, "broken", `echo "the keychain is locked"; exit 1`)
		_, err := registry.DockerCredentials(registry.DockerConfig{Path: config(t, `{"credsStore":"broken"}`)})(t.Context(), "r")
		if err == nil || !strings.Contains(err.Error(), "the keychain is locked") || !strings.Contains(err.Error(), "docker-credential-broken") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("hangs", func(t *testing.T) {
		helper(t, "slow", "exec sleep 1000")
		cfg := registry.DockerConfig{Path: config(t, `{"credsStore":"slow"}`), HelperTimeout: time.Millisecond}
		_, err := registry.DockerCredentials(cfg)(t.Context(), "r")
		if err == nil || !strings.Contains(err.Error(), "docker-credential-slow") || !strings.Contains(err.Error(), "1ms") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("is cancelled", func(t *testing.T) {
		helper(t, "slow", "exec sleep 1000")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := registry.DockerCredentials(registry.DockerConfig{Path: config(t, `{"credsStore":"slow"}`)})(ctx, "r")
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestPlacesAreLookedAtInOrder(t *testing.T) {
	file := config(t, `{"auths":{"a":{"auth":"ZmlsZTpw"},"b":{"auth":"ZmlsZTpw"}}}`)
	extra := config(t, `{"auths":{"c":{"auth":"ZXh0cmE6cA=="}}}`)
	cfg := registry.DockerConfig{
		AuthConfig: `{"auths":{"a":{"auth":"ZW52OnA="}}}`, Path: file, Extra: []string{"/no/such/file", extra},
	}
	for host, want := range map[string]string{"a": "env DOCKER_AUTH_CONFIG", "b": "file " + file, "c": "extra " + extra, "d": " "} {
		if c := lookUp(t, cfg, host); c.Username+" "+c.Source != want {
			t.Errorf("%s: got %q, want %q", host, c.Username+" "+c.Source, want)
		}
	}
}

func TestConfigThatCannotBeReadIsNamedAndNotQuoted(t *testing.T) {
	for name, text := range map[string]string{
		"byte order mark": "\xef\xbb\xbf" + `{"auths":{"r":{"auth":"dTpw"}}}`,
		"not JSON":        `{"auths":{"r":{"auth":hunter2}}}`,
		"wrong type":      `{"auths":{"r":{"auth":["hunter2"]}}}`,
		"wrong type 2":    `{"auths":"hunter2"}`,
		"bad base64":      `{"auths":{"r":{"auth":"hunter2"}}}`,
		"no colon":        `{"auths":{"r":{"auth":"aHVudGVyMg=="}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			path := config(t, text)
			_, err := registry.DockerCredentials(registry.DockerConfig{Path: path})(t.Context(), "r")
			if err == nil || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("got %v", err)
			}
			_, err = registry.DockerCredentials(registry.DockerConfig{AuthConfig: text})(t.Context(), "r")
			if err == nil || !strings.Contains(err.Error(), "DOCKER_AUTH_CONFIG") {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, text := range []string{"", " \n", "{}", `{"auths":null}`} {
		if c := lookUp(t, registry.DockerConfig{Path: config(t, text)}, "r"); c != (registry.Credential{}) {
			t.Errorf("%q: got %+v", text, c)
		}
	}
}

func TestConfigIsReadWhenALoginIsWantedAndOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	find := registry.DockerCredentials(registry.DockerConfig{Path: path})
	noError(t, os.WriteFile(path, []byte(`{"auths":{"r":{"auth":"dTpw"}}}`), 0o600))
	for range 2 {
		if c, err := find(t.Context(), "r"); err != nil || c.Username != "u" {
			t.Errorf("got %+v, %v", c, err)
		}
		noError(t, os.WriteFile(path, []byte(`{`), 0o600))
	}
}

func TestLoginOfTheConfigIsUsed(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.BasicAuth("u", "p"))
	r.Push("d/x", "1", image(t))
	cfg := registry.DockerConfig{AuthConfig: registrytest.DockerConfig(r)}
	_, err := repo(t, r.Host, "d/x", registry.Options{Credentials: registry.DockerCredentials(cfg)}).Manifest(t.Context(), "1")
	noError(t, err)
}
