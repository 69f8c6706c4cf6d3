package buildkit

import "strconv"

// checkMultiPlatform refuses what a frontend would refuse of the build argument
// that says whether to make an index: no build gets it.
func checkMultiPlatform(s *Spec) error {
	v := s.Options.BuildArgs[multiPlatformArg]
	reason := wrongMultiPlatform(v)
	if one, err := strconv.ParseBool(v); reason == "" && err == nil && !one && len(s.Platforms) > 1 {
		reason = "several platforms are built, which are one index"
	}
	if reason == "" {
		return nil
	}
	return &UsageError{Flag: "build-arg", Value: multiPlatformArg + "=" + v, Reason: reason}
}

// wrongMultiPlatform is what is wrong with a value, if anything is.
func wrongMultiPlatform(v string) string {
	if _, err := strconv.ParseBool(v); v != "" && err != nil {
		return "want true or false"
	}
	return ""
}
