package buildkit

import (
	"github.com/docker/buildx/build"
	"github.com/docker/buildx/util/buildflags"
	"github.com/docker/buildx/util/confutil"
	"github.com/docker/cli/cli/command"
	dockeropts "github.com/docker/cli/opts"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/exporter/containerimage/exptypes"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/spf13/pflag"
)

// Spec is what a user asked of a build, as data: the flags of buildx's build
// command, read by buildx's parsers, with the pushing output taken apart.
type Spec struct {
	// Options is what every target of the build shares. Platforms, Tags,
	// Exports and Attests are not in it: they depend on who builds what.
	Options build.Options
	// Platforms in the order given, each once; empty means the node's own.
	Platforms []oci.Platform
	// Tags as given with --tag.
	Tags []string
	// Attests by type; a nil value switches that type off.
	Attests map[string]*string
	// Annotations of --annotation, as given. They are in the attributes of every
	// output too, where they take effect.
	Annotations map[exptypes.AnnotationKey]string

	// Push says that an image output with push=true is asked for. It is false
	// with --call, which builds nothing.
	Push bool
	// PushByDigest is push-by-digest=true of that output: no tag is written.
	PushByDigest bool
	// Names are the images to publish, as given, each once: the tags, or else
	// the name= of the pushing output.
	Names []string
	// Image has the attributes of the pushing output for one platform's image:
	// all but name, push, push-by-digest, name-canonical and the annotations of
	// index and descriptors. registry.insecure, where given, concerns whoever
	// publishes too.
	Image map[string]string
	// IndexAnnotations are for the published index, also with one platform.
	IndexAnnotations map[string]string
	// IndexDescriptorAnnotations are for the descriptor of the index, which a
	// registry does not hold; they appear in the metadata file.
	IndexDescriptorAnnotations map[string]string
	// DescriptorAnnotations are for entries of the index, sorted by key.
	DescriptorAnnotations []DescriptorAnnotation
	// Others are the outputs beside the pushing one; all outputs without Push.
	Others []client.ExportEntry

	// StdoutTaken: an output goes to standard output, and nothing else may.
	StdoutTaken bool

	// Call is what --call or --check asks for, nil for a build.
	Call *buildflags.CallFunc
	// Builder is the buildx instance named, empty for the current one.
	Builder string
	// IIDFile and MetadataFile are paths to write, empty for none.
	IIDFile, MetadataFile string
	// MetadataWarnings asks for warnings in the metadata file
	// (BUILDX_METADATA_WARNINGS).
	MetadataWarnings bool
	// Quiet asks for nothing but the digest on standard output.
	Quiet bool
	// Progress is how to show progress; quiet with Quiet, and for "none".
	Progress progressui.DisplayMode

	// overrides are what single platforms are built with, by their key.
	overrides map[string]*Override
	// linked are the targets of a bake file that contexts name, by their name.
	linked map[string]build.Options
}

// DescriptorAnnotation is one annotation of an entry in the index.
type DescriptorAnnotation struct {
	// Platform selects the entries; nil selects all.
	Platform   *oci.Platform
	Key, Value string
}

// ReadSpec reads the parsed flags. contextPath is the one argument: a
// directory, a URL or "-". env looks up variables (build arguments without a
// value, SOURCE_DATE_EPOCH, BUILDX_METADATA_*); buildx's own packages read the
// rest of theirs from the process. The error is a [*UsageError].
func (c *Command) ReadSpec(contextPath string, env func(string) (string, bool)) (*Spec, error) {
	c.enableDebug()
	r := specReader{cli: c.cli, flags: c.flags, env: env, contextPath: contextPath}
	s := &Spec{}
	for _, step := range []func(*Spec) error{
		r.readDisplay, r.readCall, r.readInputs, r.readArguments, r.readLimits, r.readPlatforms,
		r.readAttests, r.readSession, r.readCaches, r.readPolicy, r.readOutputs, checkNames, checkMultiPlatform,
	} {
		if err := step(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// specReader reads flags by the value they hold, whoever parsed them.
type specReader struct {
	cli         *command.DockerCli
	flags       *pflag.FlagSet
	env         func(string) (string, bool)
	contextPath string
}

func (r specReader) str(name string) string {
	return r.flags.Lookup(name).Value.String()
}

func (r specReader) on(name string) bool { return r.str(name) == "true" }

// list reads the values as they were written; pflag's GetStringArray would take
// them through CSV.
func (r specReader) list(name string) []string {
	if v, ok := r.flags.Lookup(name).Value.(pflag.SliceValue); ok {
		return v.GetSlice()
	}
	return nil
}

func (r specReader) readDisplay(s *Spec) error {
	s.Builder, s.IIDFile, s.MetadataFile = r.str("builder"), r.str("iidfile"), r.str("metadata-file")
	s.Quiet = r.on("quiet")
	return r.readProgress(s)
}

func (r specReader) readProgress(s *Spec) error {
	given := r.str("progress")
	s.Quiet = s.Quiet || given == "quiet"
	switch progressui.DisplayMode(given) {
	case progressui.AutoMode, progressui.DefaultMode, progressui.QuietMode:
	case progressui.TtyMode, progressui.PlainMode, progressui.RawJSONMode, "none":
		if s.Quiet {
			return &UsageError{Flag: "progress", Value: given, Reason: "cannot be used together with --quiet"}
		}
	default:
		return &UsageError{Flag: "progress", Value: given, Reason: "want auto, none, plain, quiet, rawjson or tty"}
	}
	s.Progress = r.displayMode(given, s.Quiet)
	return nil
}

// displayMode follows buildx, where "quiet" means no display and the image id
// at the end, and "none" no display alone.
func (r specReader) displayMode(given string, quiet bool) progressui.DisplayMode {
	if quiet || given == "none" {
		return progressui.QuietMode
	}
	if preferred, _ := r.env("BUILDKIT_PROGRESS"); preferred != "" && given == string(progressui.AutoMode) {
		return progressui.DisplayMode(preferred)
	}
	return progressui.DisplayMode(given)
}

func (r specReader) readCall(s *Spec) (err error) {
	if s.Call, err = buildflags.ParseCallFunc(r.str("call")); err != nil {
		return usage("call", err)
	}
	if s.Call != nil {
		s.Options.CallFunc = &build.CallFunc{Name: s.Call.Name, Format: s.Call.Format, IgnoreStatus: s.Call.IgnoreStatus}
	}
	s.Options.ProvenanceResponseMode = confutil.MetadataProvenanceModeDisabled
	if s.Call == nil && s.MetadataFile != "" {
		mode, _ := r.env("BUILDX_METADATA_PROVENANCE")
		s.Options.ProvenanceResponseMode = confutil.ParseMetadataProvenance(mode)
	}
	warnings, _ := r.env("BUILDX_METADATA_WARNINGS")
	s.MetadataWarnings = isTrue(warnings)
	return nil
}

func (r specReader) readLimits(s *Spec) (err error) {
	var entries []string
	for _, name := range legacyResources() {
		if v := r.str(name); v != "" {
			entries = append(entries, name+"="+v)
		}
	}
	s.Options.ResourceLimits, err = build.ParseResourceLimits(append(entries, r.list("resource")...))
	if err != nil {
		return usage("resource", err)
	}
	if v, ok := r.flags.Lookup("shm-size").Value.(*dockeropts.MemBytes); ok {
		s.Options.ShmSize = *v
	}
	if v, ok := r.flags.Lookup("ulimit").Value.(*dockeropts.UlimitOpt); ok {
		s.Options.Ulimits = v
	}
	s.Options.CgroupParent = r.str("cgroup-parent")
	s.Options.ExtraHosts = r.list("add-host")
	s.Options.NetworkMode = r.str("network")
	return nil
}

func (r specReader) readAttests(s *Spec) error {
	in := append([]string(nil), r.list("attest")...)
	for _, name := range []string{"provenance", "sbom"} {
		if v := buildflags.CanonicalizeAttest(name, r.str(name)); v != "" {
			in = append(in, v)
		}
	}
	attests, err := buildflags.ParseAttests(in)
	s.Attests = attests.ToMap()
	return usage("attest", err)
}

func (r specReader) readCaches(s *Spec) error {
	from, err := buildflags.ParseCacheEntry(r.list("cache-from"))
	if err != nil {
		return usage("cache-from", err)
	}
	to, err := buildflags.ParseCacheEntry(r.list("cache-to"))
	if err != nil {
		return usage("cache-to", err)
	}
	s.Options.CacheFrom, s.Options.CacheTo = build.CreateCaches(from), build.CreateCaches(to)
	s.Options.NoCache, s.Options.NoCacheFilter = r.on("no-cache"), r.list("no-cache-filter")
	s.Options.Pull = r.on("pull")
	if s.Options.NoCache && len(s.Options.NoCacheFilter) > 0 {
		return &UsageError{Flag: "no-cache-filter", Reason: "cannot be used together with --no-cache"}
	}
	return nil
}

func (r specReader) readPolicy(s *Spec) (err error) {
	if s.Options.SourcePolicy, err = build.ReadSourcePolicy(); err != nil {
		return &UsageError{Reason: err.Error()}
	}
	s.Options.Policy, err = buildflags.ParsePolicyConfigs(r.list("policy"))
	return usage("policy", err)
}
