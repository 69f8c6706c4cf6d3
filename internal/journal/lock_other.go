//go:build !unix

package journal

import "os"

// lock grants every file: two runs of the same publish at the same time write
// the same content, so their records say the same.
func lock(*os.File) (bool, error) { return true, nil }
