package cli

import (
	"errors"
	"path/filepath"
)

// dataDir is where manifold keeps what should outlive a run: the state of the
// local builder and registry.
func (h Host) dataDir() (string, error) {
	if dir := h.getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "manifold"), nil
	}
	home := h.getenv("HOME")
	if home == "" {
		return "", errors.New("no place for data: neither XDG_DATA_HOME nor HOME is set")
	}
	return filepath.Join(home, ".local", "share", "manifold"), nil
}

// journalDir is where publishes that are under way are remembered.
func (h Host) journalDir() (string, error) {
	if dir := h.getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "manifold", "journal"), nil
	}
	home := h.getenv("HOME")
	if home == "" {
		return "", errors.New("no place for journals: neither XDG_STATE_HOME nor HOME is set")
	}
	return filepath.Join(home, ".local", "state", "manifold", "journal"), nil
}

// dockerConfig is Docker's config file.
func (h Host) dockerConfig() string {
	if dir := h.getenv("DOCKER_CONFIG"); dir != "" {
		return filepath.Join(dir, "config.json")
	}
	if home := h.getenv("HOME"); home != "" {
		return filepath.Join(home, ".docker", "config.json")
	}
	return ""
}
