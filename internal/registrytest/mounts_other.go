//go:build !linux

package registrytest

func unmount(string) error { return nil }
