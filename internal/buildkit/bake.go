package buildkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/containerd/platforms"
	"github.com/docker/buildx/bake"
	buildx "github.com/docker/buildx/build"
	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/util/buildflags"
	"github.com/docker/buildx/util/confutil"
	"github.com/docker/buildx/util/dockerutil/dockerconfig"
	"github.com/docker/buildx/util/progress"
	"github.com/docker/buildx/util/urlutil"
	"github.com/docker/cli/cli/command"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session/auth/authprovider"
)

// NewBakeCommand takes the bake command out of buildx's command tree, as
// [NewCommand] does for build.
func NewBakeCommand(cli *command.DockerCli) (*Command, error) { return newCommand(cli, "bake") }

// RunBake is "buildx bake" with the flags as parsed, for what builds nothing:
// --print and --list.
func (c *Command) RunBake(ctx context.Context, args []string) error {
	c.enableDebug()
	c.build.SetContext(ctx)
	return exitError(c.build.RunE(c.build, args))
}

// OnlyShows reports whether the flags of bake ask for the definition to be shown
// rather than followed.
func (c *Command) OnlyShows() bool {
	on := func(name string) bool { return c.flags.Lookup(name).Value.String() == "true" }
	return on("print") || on("list-targets") || on("list-variables") || c.flags.Lookup("list").Value.String() != ""
}

// Common reads what is not about one target of bake: builder, metadata file,
// progress.
func (c *Command) Common(env func(string) (string, bool)) (*Spec, error) {
	r := specReader{cli: c.cli, flags: c.flags, env: env}
	warnings, _ := env("BUILDX_METADATA_WARNINGS")
	s := &Spec{Builder: r.str("builder"), MetadataFile: r.str("metadata-file"), MetadataWarnings: isTrue(warnings)}
	return s, r.readProgress(s)
}

// BakeTarget is one target of a bake file.
type BakeTarget struct {
	Name string
	*Spec
}

// Bake is what the targets of bake files ask for.
type Bake struct {
	// Targets to build, by name. Those that are there as the context of another
	// one only are not among them.
	Targets []BakeTarget

	calls calls
}

// ReadBake reads bake files with the flags as parsed. nodes fetch files that are
// remote. The error is a [*UsageError] or [*SharedTagError].
func (c *Command) ReadBake(ctx context.Context, args []string, nodes []builder.Node, env func(string) (string, bool)) (*Bake, error) {
	c.enableDebug()
	r := bakeReader{specReader: specReader{cli: c.cli, flags: c.flags, env: env}}
	def, err := r.read(ctx, args, nodes)
	var out *Bake
	if err == nil {
		out, err = r.take(def)
	}
	if err == nil {
		return out, ownTags(out.Targets)
	}
	var u *UsageError
	if errors.As(err, &u) {
		return nil, err
	}
	return nil, &UsageError{Reason: err.Error()}
}

type bakeReader struct{ specReader }

// definition is what bake files say, read by buildx.
type definition struct {
	targets map[string]*bake.Target
	groups  map[string]*bake.Group
	options map[string]buildx.Options
}

// take parts the targets into those to build and those to ask something of.
func (r bakeReader) take(def definition) (*Bake, error) {
	out := &Bake{}
	var err error
	if out.calls, err = r.calls(def); err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(def.options)) {
		if o := def.options[name]; o.Linked || o.CallFunc != nil {
			continue
		}
		spec, err := r.spec(name, def.options)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
		out.Targets = append(out.Targets, BakeTarget{name, spec})
	}
	return out, nil
}

// ownTags refuses a tag that two targets would move, each with an index of its own.
func ownTags(targets []BakeTarget) error {
	owner := map[ref.Reference]string{}
	for _, t := range targets {
		if !t.Push || t.PushByDigest {
			continue
		}
		for _, name := range t.Names {
			r, _ := ref.Parse(name)
			if other, taken := owner[r.OrLatest()]; taken {
				return &SharedTagError{Tag: name, Targets: [2]string{other, t.Name}}
			}
			owner[r.OrLatest()] = t.Name
		}
	}
	return nil
}

// SharedTagError reports two targets that would each move one tag: it would be
// left with whichever is later.
type SharedTagError struct {
	Tag     string
	Targets [2]string
}

func (e *SharedTagError) Error() string {
	return fmt.Sprintf("tag %s: targets %s and %s both publish it", e.Tag, e.Targets[0], e.Targets[1])
}

// read does what buildx's runBake does before it builds.
func (r bakeReader) read(ctx context.Context, args []string, nodes []builder.Node) (definition, error) {
	url, cmdContext, targets := bakeArgs(args)
	files, input, err := r.files(ctx, nodes, url)
	if err != nil {
		return definition{}, err
	}
	def, allowed, err := r.parse(ctx, files, targets, cmdContext)
	if err != nil {
		return definition{}, err
	}
	if def.options, err = bake.TargetsToBuildOpt(def.targets, input); err != nil {
		return definition{}, err
	}
	wanted, err := allowed.Validate(def.options)
	if err != nil {
		return definition{}, err
	}
	login := authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{AuthConfigProvider: dockerconfig.LoadAuthConfig(r.cli)})
	for name, o := range def.options {
		o.Session = append(slices.Clone(o.Session), login)
		def.options[name] = o
	}
	return def, usage("allow", wanted.Check(url != ""))
}

func (r bakeReader) parse(ctx context.Context, files []bake.File, targets []string, cmdContext string) (def definition, allowed bake.EntitlementConf, err error) {
	if allowed, err = r.entitlements(); err != nil {
		return def, allowed, err
	}
	vars, err := r.variables()
	if err != nil {
		return def, allowed, err
	}
	relative, err := r.relativePaths()
	if err != nil {
		return def, allowed, err
	}
	overrides, unchecked, err := r.overrides()
	if err != nil {
		return def, allowed, err
	}
	defaults := map[string]string{"BAKE_CMD_CONTEXT": cmdContext, "BAKE_LOCAL_PLATFORM": platforms.Format(platforms.DefaultSpec())}
	def.targets, def.groups, err = bake.ReadTargets(ctx, files, targets, overrides, defaults, vars, &allowed, bake.ParseOpt{FileRelativePaths: relative})
	if err != nil {
		return def, allowed, err
	}
	epoch, _ := r.env(sourceDateEpoch)
	for _, t := range def.targets {
		setEpoch(t, epoch)
		if unchecked {
			t.Policy = buildflags.PolicyConfigs{{Disabled: true}}
		}
	}
	return def, allowed, nil
}

func setEpoch(t *bake.Target, epoch string) {
	if _, given := t.Args[sourceDateEpoch]; given || epoch == "" {
		return
	}
	if t.Args == nil {
		t.Args = map[string]*string{}
	}
	t.Args[sourceDateEpoch] = &epoch
}

// bakeArgs parts the arguments: an address of files, one of the context for
// them, targets.
func bakeArgs(args []string) (url, cmdContext string, targets []string) {
	cmdContext, targets = "cwd://", args
	if len(targets) > 0 && urlutil.IsRemoteURL(targets[0]) {
		url, targets = targets[0], targets[1:]
	}
	if url != "" && len(targets) > 0 && urlutil.IsRemoteURL(targets[0]) {
		cmdContext, targets = targets[0], targets[1:]
	}
	if len(targets) == 0 {
		targets = []string{"default"}
	}
	return url, cmdContext, slices.Clone(targets)
}

func (r bakeReader) files(ctx context.Context, nodes []builder.Node, url string) ([]bake.File, *bake.Input, error) {
	names := r.list("file")
	if len(names) == 0 {
		var err error
		if names, err = r.filesOfEnvironment(); err != nil {
			return nil, nil, err
		}
	}
	var local, remote []string
	for _, n := range names {
		if own, ok := strings.CutPrefix(n, "cwd://"); ok || url == "" {
			local = append(local, own)
		} else {
			remote = append(remote, n)
		}
	}
	var files []bake.File
	var input *bake.Input
	if url != "" {
		var err error
		if files, input, err = bake.ReadRemoteFiles(ctx, nodes, url, remote, silent{}); err != nil {
			return nil, nil, err
		}
	}
	if len(local) > 0 || url == "" {
		more, err := readLocalBakeFiles(local, r)
		if err != nil {
			return nil, nil, err
		}
		files = append(files, more...)
	}
	if len(files) == 0 {
		return nil, nil, &UsageError{Flag: "file", Reason: "no bake definition is here"}
	}
	return files, input, nil
}

func readLocalBakeFiles(names []string, r bakeReader) (files []bake.File, err error) {
	werr := progress.Wrap("[internal] load local bake definitions", silent{}.Write, func(sub progress.SubLogger) error {
		files, err = bake.ReadLocalFiles(names, r.cli.In(), sub)
		return err
	})
	return files, errors.Join(werr)
}

// spec makes a spec of one target; those that its contexts name come with it.
func (r bakeReader) spec(name string, all map[string]buildx.Options) (*Spec, error) {
	o := all[name]
	s := &Spec{
		Options: o, Tags: o.Tags, Attests: o.Attests, Annotations: o.Annotations, Builder: r.str("builder"),
	}
	for _, p := range o.Platforms {
		s.Platforms = append(s.Platforms, oci.NormalizePlatform(p))
	}
	s.Options.Platforms, s.Options.Tags, s.Options.Exports, s.Options.Attests = nil, nil, nil, nil
	s.Options.ProvenanceResponseMode = confutil.MetadataProvenanceModeDisabled
	if r.str("metadata-file") != "" {
		mode, _ := r.env("BUILDX_METADATA_PROVENANCE")
		s.Options.ProvenanceResponseMode = confutil.ParseMetadataProvenance(mode)
	}
	exports := make([]client.ExportEntry, len(o.Exports))
	for i, e := range o.Exports {
		e.Attrs = maps.Clone(e.Attrs)
		exports[i] = e
	}
	if err := s.takeApart(exports); err != nil {
		return nil, err
	}
	if err := checkNames(s); err != nil {
		return nil, err
	}
	if err := checkMultiPlatform(s); err != nil {
		return nil, err
	}
	return s, s.link(all, map[string]bool{name: true})
}
