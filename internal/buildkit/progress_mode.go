package buildkit

import (
	"slices"

	"github.com/moby/buildkit/util/progress/progressui"
)

// ProgressMode reads the value of --progress for a command that is not a build:
// auto, none, plain, quiet, rawjson or tty. The error is a [*UsageError].
func ProgressMode(name string) (progressui.DisplayMode, error) {
	if name == "" {
		return progressui.AutoMode, nil
	}
	if name == "none" {
		return progressui.QuietMode, nil
	}
	mode := progressui.DisplayMode(name)
	known := []progressui.DisplayMode{progressui.AutoMode, progressui.PlainMode, progressui.QuietMode, progressui.RawJSONMode, progressui.TtyMode}
	if !slices.Contains(known, mode) {
		return "", &UsageError{Flag: "progress", Value: name, Reason: "want auto, none, plain, quiet, rawjson or tty"}
	}
	return mode, nil
}
