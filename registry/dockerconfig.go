package registry

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// dockerFile is the part of Docker's config.json that is about logins.
type dockerFile struct {
	Auths       map[string]authEntry `json:"auths"`
	CredsStore  string               `json:"credsStore"`
	CredHelpers map[string]string    `json:"credHelpers"`
}

// authEntry is one login in a file.
type authEntry struct {
	// Key is what the entry is filed under.
	Key           string `json:"-"`
	Auth          string `json:"auth"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	IdentityToken string `json:"identitytoken"`
	RegistryToken string `json:"registrytoken"`
}

func readDockerFile(path string) (dockerFile, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return dockerFile{}, nil
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return dockerFile{}, pathErr.Err // the path is added by the caller
	}
	if err != nil {
		return dockerFile{}, err
	}
	return parseDockerFile(b)
}

// parseDockerFile reads a config the way Docker does: members in any letter
// case, unknown ones ignored. Errors do not quote the content, which is secret.
func parseDockerFile(b []byte) (dockerFile, error) {
	var f dockerFile
	if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) {
		return f, errors.New("starts with a byte order mark; save it without one")
	}
	if len(bytes.TrimSpace(b)) == 0 {
		return f, nil
	}
	err := json.Unmarshal(b, &f, json.MatchCaseInsensitiveNames(true), jsontext.AllowDuplicateNames(true))
	var syntactic *jsontext.SyntacticError
	var semantic *json.SemanticError
	switch {
	case errors.As(err, &syntactic):
		return f, fmt.Errorf("not JSON, at byte %d", syntactic.ByteOffset)
	case errors.As(err, &semantic):
		return f, fmt.Errorf("unexpected JSON at %q", semantic.JSONPointer)
	case err != nil:
		return f, errors.New("not a Docker config")
	}
	return f, nil
}

// entry returns the login whose key matches target, "host/repository", best.
func (f dockerFile) entry(target string) (e authEntry, listed bool) {
	key, ok := bestKey(f.Auths, target, func(e authEntry) bool { return !e.empty() })
	e = f.Auths[key]
	e.Key = key
	return e, ok
}

// helper is the credential helper for target, "" when the file is to be read.
func (f dockerFile) helper(target string) string {
	if key, ok := bestKey(f.CredHelpers, target, func(h string) bool { return h != "" }); ok {
		return f.CredHelpers[key]
	}
	return f.CredsStore
}

// bestKey is the key with the longest match; among spellings of one name, the
// one with a useful value, and then the plainest.
func bestKey[V any](m map[string]V, target string, useful func(V) bool) (best string, found bool) {
	target = canonicalKey(target)
	for key, v := range m {
		name := canonicalKey(key)
		if target != name && !strings.HasPrefix(target, name+"/") {
			continue
		}
		if !found || better(key, name, useful(v), best, useful(m[best])) {
			best, found = key, true
		}
	}
	return best, found
}

func better(key, name string, useful bool, best string, bestUseful bool) bool {
	bestName := canonicalKey(best)
	switch {
	case len(name) != len(bestName):
		return len(name) > len(bestName)
	case useful != bestUseful:
		return useful
	case len(key) != len(best):
		return len(key) < len(best)
	}
	return key < best
}

// canonicalKey takes off a key what does not count: scheme, API version, letter
// case of the host, and the several names of Docker Hub.
func canonicalKey(key string) string {
	if _, rest, ok := strings.Cut(key, "://"); ok {
		key = rest
	}
	key = strings.TrimRight(key, "/")
	for _, version := range []string{"/v1", "/v2"} {
		key = strings.TrimSuffix(key, version)
	}
	host, path, hasPath := strings.Cut(key, "/")
	if host = strings.ToLower(host); host == "index.docker.io" || host == hubAPI {
		host = hubHost
	}
	if !hasPath {
		return host
	}
	return host + "/" + path
}

func (e authEntry) empty() bool {
	return e.Auth == "" && e.Username == "" && e.Password == "" && e.IdentityToken == "" && e.RegistryToken == ""
}

func (e authEntry) credential() (Credential, error) {
	c := Credential{Username: e.Username, Password: e.Password, RefreshToken: e.IdentityToken, AccessToken: e.RegistryToken}
	if e.Auth == "" {
		return c, nil
	}
	b, err := base64.StdEncoding.DecodeString(e.Auth)
	user, password, ok := strings.Cut(string(b), ":")
	if err != nil || !ok {
		return Credential{}, fmt.Errorf("auths entry %q: auth is not base64 of user:password", e.Key)
	}
	c.Username, c.Password = user, strings.TrimRight(password, "\x00")
	return c, nil
}
