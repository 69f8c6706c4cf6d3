package cli

import (
	"path/filepath"

	"github.com/manifold-oci/manifold/registry"
)

// logins are the places that have logins: Docker's first, then those of podman,
// unless REGISTRY_AUTH_FILE names one.
func (h Host) logins() registry.DockerConfig {
	c := registry.DockerConfig{Path: h.dockerConfig(), AuthConfig: h.getenv("DOCKER_AUTH_CONFIG")}
	if path := h.getenv("REGISTRY_AUTH_FILE"); path != "" {
		c.Path, c.Extra = path, []string{c.Path}
		return c
	}
	if dir := h.getenv("XDG_RUNTIME_DIR"); dir != "" {
		c.Extra = append(c.Extra, filepath.Join(dir, "containers", "auth.json"))
	}
	if dir := h.configDir(); dir != "" {
		c.Extra = append(c.Extra, filepath.Join(dir, "containers", "auth.json"))
	}
	return c
}

// certificates are the places that have certificates: those of Docker, then
// those of podman, the user's own before those of the machine.
func (h Host) certificates() registry.Certificates {
	var c registry.Certificates
	if path := h.dockerConfig(); path != "" {
		c.Dirs = append(c.Dirs, filepath.Join(filepath.Dir(path), "certs.d"))
	}
	if dir := h.configDir(); dir != "" {
		c.Dirs = append(c.Dirs, filepath.Join(dir, "docker", "certs.d"), filepath.Join(dir, "containers", "certs.d"))
	}
	c.Dirs = append(c.Dirs, "/etc/docker/certs.d", "/etc/containers/certs.d")
	return c
}

// configDir is where programs keep the user's settings, empty when there is no
// home.
func (h Host) configDir() string {
	if dir := h.getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	if home := h.getenv("HOME"); home != "" {
		return filepath.Join(home, ".config")
	}
	return ""
}
