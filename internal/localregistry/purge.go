package localregistry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// uploadLife is how long a broken upload can still be resumed, Distribution's
// own default.
const uploadLife = 7 * 24 * time.Hour

// purge removes upload sessions that nobody touched for a week.
func purge(dir string) error {
	root := filepath.Join(dir, "docker", "registry", "v2", "repositories")
	limit := time.Now().Add(-uploadLife)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case !e.IsDir():
			return nil
		case e.Name() == "_uploads":
			if err := purgeUploads(path, limit); err != nil {
				return err
			}
			return filepath.SkipDir
		case e.Name() == "_layers" || e.Name() == "_manifests":
			return filepath.SkipDir
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func purgeUploads(dir string, limit time.Time) error {
	sessions, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, s := range sessions {
		path := filepath.Join(dir, s.Name())
		if untouchedSince(path, limit) {
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
	}
	return nil
}

// untouchedSince looks at the data of a session, whose directory keeps its time
// while bytes arrive.
func untouchedSince(session string, limit time.Time) bool {
	info, err := os.Stat(filepath.Join(session, "data"))
	if err != nil {
		info, err = os.Stat(session)
	}
	return err == nil && info.ModTime().Before(limit)
}
