package buildkit

import (
	"maps"
	"strings"

	buildx "github.com/docker/buildx/build"
	"github.com/manifold-oci/manifold/oci"
)

// Override is what one platform is built with instead of what all others are.
type Override struct {
	// File is the Dockerfile, Target the stage; empty for those of all.
	File, Target string
	// Args are build arguments beside those of all, and before them.
	Args map[string]string
}

// PlatformFlags are flags that are for one platform each: PLATFORM=FILE,
// PLATFORM=TARGET and PLATFORM:KEY=VALUE.
type PlatformFlags struct {
	Files, Targets, Args []string
}

// Override reads flags into the spec. Every platform must be among those that
// are built. The error is a [*UsageError].
func (s *Spec) Override(f PlatformFlags) error {
	set := func(flag, sep string, values []string, put func(*Override, string) *UsageError) error {
		for _, v := range values {
			name, value, ok := strings.Cut(v, sep)
			if !ok || value == "" {
				return &UsageError{Flag: flag, Value: name, Reason: "want PLATFORM" + sep + "..."}
			}
			if err := s.override(flag, name, value, put); err != nil {
				return err
			}
		}
		return nil
	}
	if err := set("platform-file", "=", f.Files, s.putFile); err != nil {
		return err
	}
	if err := set("platform-target", "=", f.Targets, putTarget); err != nil {
		return err
	}
	return set("platform-arg", ":", f.Args, putArg)
}

func (s *Spec) override(flag, name, value string, put func(*Override, string) *UsageError) error {
	p, perr := parsePlatform(name)
	if perr != nil {
		return &UsageError{Flag: flag, Value: name, Reason: perr.Reason}
	}
	if !builds(s, p) || len(s.Platforms) == 0 {
		return &UsageError{Flag: flag, Value: name, Reason: "the platform is not built: name it with --platform"}
	}
	if s.overrides == nil {
		s.overrides = map[string]*Override{}
	}
	key := oci.PlatformKey(p)
	if s.overrides[key] == nil {
		s.overrides[key] = &Override{Args: map[string]string{}}
	}
	if err := put(s.overrides[key], value); err != nil {
		err.Flag = flag
		return err
	}
	return nil
}

func (s *Spec) putFile(o *Override, value string) *UsageError {
	if value == "-" {
		return &UsageError{Value: value, Reason: "standard input is for one Dockerfile"}
	}
	if err := checkContext(s.Options.Inputs.ContextPath, value); err != nil {
		return &UsageError{Value: value, Reason: err.Error()}
	}
	o.File = value
	return nil
}

func putTarget(o *Override, value string) *UsageError {
	o.Target = value
	return nil
}

func putArg(o *Override, value string) *UsageError {
	k, v, ok := strings.Cut(value, "=")
	if !ok || k == "" {
		return &UsageError{Value: k, Reason: "want PLATFORM:KEY=VALUE"}
	}
	if reason := wrongMultiPlatform(v); k == multiPlatformArg && reason != "" {
		return &UsageError{Value: value, Reason: reason}
	}
	o.Args[k] = v
	return nil
}

// Overridden reports whether a platform is built differently from the others.
func (s *Spec) Overridden() bool { return len(s.overrides) > 0 }

// overridden applies what is said about one platform.
func (s *Spec) overridden(o *buildx.Options, p oci.Platform) {
	over := s.overrides[oci.PlatformKey(p)]
	if over == nil {
		return
	}
	if over.File != "" {
		o.Inputs.DockerfilePath = over.File
	}
	if over.Target != "" {
		o.Target = over.Target
	}
	o.BuildArgs = maps.Clone(o.BuildArgs)
	if o.BuildArgs == nil {
		o.BuildArgs = map[string]string{}
	}
	maps.Copy(o.BuildArgs, over.Args)
}
