package localregistry

import (
	"os"

	dist "github.com/distribution/distribution/v3/configuration"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem" // the only storage driver
)

// configuration switches on the filesystem and deletion, and nothing that
// reaches outside: no debug address, notifications, redis or health checks.
//
// There is no descriptor cache, because a cache would go on answering for
// content that was removed from the directory. Uploads that were broken off are
// not purged by the registry, whose purger logs through a global logger;
// [prepare] does it.
func configuration(o Options) *dist.Configuration {
	return &dist.Configuration{
		Version: "0.1",
		Log:     dist.Log{AccessLog: dist.AccessLog{Disabled: true}},
		Storage: dist.Storage{
			"filesystem": {"rootdirectory": o.Dir},
			"delete":     {"enabled": true},
			"maintenance": {
				"uploadpurging": map[any]any{"enabled": false},
				"readonly":      map[any]any{"enabled": o.ReadOnly},
			},
		},
		Catalog: dist.Catalog{MaxEntries: pageSize},
		Tags:    dist.Tags{MaxTags: pageSize},
	}
}

// pageSize is how many names a listing returns at the most, Distribution's own
// default.
const pageSize = 1000

// prepare makes the directory and removes uploads that were broken off.
func prepare(dir string, readOnly bool) error {
	if dir == "" {
		return &Error{Object: "local registry", Err: ErrNoDir}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return &Error{Object: dir, Err: err}
	}
	if readOnly {
		return nil
	}
	if err := purge(dir); err != nil {
		return &Error{Object: dir, Err: err}
	}
	return nil
}
