package buildkit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/session/auth/authprovider"
)

// NewBakeCommand takes the bake command out of buildx's command tree, as
// [NewCommand] does for build.
func NewBakeCommand(cli *command.DockerCli) (*Command, error) { return newCommand(cli, "bake") }

// RunBake is "buildx bake" with the flags as parsed, for what pushes nothing:
// --print, --list, --call, and targets with other outputs.
func (c *Command) RunBake(ctx context.Context, args []string) error {
	c.enableDebug()
	c.build.SetContext(ctx)
	return exitError(c.build.RunE(c.build, args))
}

// OnlyShows reports whether the flags of bake ask for something to be shown
// rather than built.
func (c *Command) OnlyShows() bool {
	call, err := buildflags.ParseCallFunc(c.flags.Lookup("call").Value.String())
	on := func(name string) bool { return c.flags.Lookup(name).Value.String() == "true" }
	return on("print") || on("list-targets") || on("list-variables") || c.flags.Lookup("list").Value.String() != "" || call != nil || err != nil
}

// Common reads the flags of bake that are not about one target: builder,
// metadata file and progress.
func (c *Command) Common(env func(string) (string, bool)) (*Spec, error) {
	r := specReader{cli: c.cli, flags: c.flags, env: env}
	s := &Spec{Builder: r.str("builder"), MetadataFile: r.str("metadata-file")}
	return s, r.readProgress(s)
}

// BakeTarget is one target of a bake file.
type BakeTarget struct {
	Name string
	*Spec
}

// ReadBake reads bake files with the flags as parsed and returns the targets to
// build, by name. nodes fetch files that are remote. The error is a
// [*UsageError].
func (c *Command) ReadBake(ctx context.Context, args []string, nodes []builder.Node, env func(string) (string, bool)) ([]BakeTarget, error) {
	c.enableDebug()
	r := bakeReader{specReader: specReader{cli: c.cli, flags: c.flags, env: env}}
	options, err := r.read(ctx, args, nodes)
	if err != nil {
		var u *UsageError
		if errors.As(err, &u) {
			return nil, err
		}
		return nil, &UsageError{Reason: err.Error()}
	}
	var out []BakeTarget
	for _, name := range slices.Sorted(maps.Keys(options)) {
		if options[name].Linked {
			continue // it is there as the context of another one only
		}
		spec, err := r.spec(name, options)
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
		out = append(out, BakeTarget{name, spec})
	}
	return out, nil
}

type bakeReader struct{ specReader }

// read does what buildx's runBake does before it builds.
func (r bakeReader) read(ctx context.Context, args []string, nodes []builder.Node) (map[string]buildx.Options, error) {
	url, cmdContext, targets := bakeArgs(args)
	files, input, err := r.files(ctx, nodes, url)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{}
	for _, v := range r.list("var") {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, &UsageError{Flag: "var", Value: v, Reason: "want NAME=VALUE"}
		}
		vars[name] = value
	}
	allowed, err := r.entitlements()
	if err != nil {
		return nil, err
	}
	defaults := map[string]string{"BAKE_CMD_CONTEXT": cmdContext, "BAKE_LOCAL_PLATFORM": platforms.Format(platforms.DefaultSpec())}
	read, _, err := bake.ReadTargets(ctx, files, targets, r.overrides(), defaults, vars, &allowed)
	if err != nil {
		return nil, err
	}
	if epoch, _ := r.env(sourceDateEpoch); epoch != "" {
		for _, t := range read {
			if t.Args == nil {
				t.Args = map[string]*string{}
			}
			if _, given := t.Args[sourceDateEpoch]; !given {
				t.Args[sourceDateEpoch] = &epoch
			}
		}
	}
	options, err := bake.TargetsToBuildOpt(read, input)
	if err != nil {
		return nil, err
	}
	wanted, err := allowed.Validate(options)
	if err != nil {
		return nil, err
	}
	return options, usage("allow", wanted.Check(url != ""))
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
	if given, _ := r.env("BUILDX_BAKE_FILE"); len(names) == 0 && given != "" && url == "" {
		separator := string(filepath.ListSeparator)
		if s, _ := r.env("BUILDX_BAKE_PATH_SEPARATOR"); s != "" {
			separator = s
		}
		names = strings.Split(given, separator)
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

// overrides are --set and the flags that stand for it.
func (r bakeReader) overrides() []string {
	out := slices.Clone(r.list("set"))
	for flag, key := range map[string]string{"push": "push", "load": "load", "no-cache": "no-cache", "pull": "pull"} {
		if f := r.flags.Lookup(flag); f.Changed {
			out = append(out, "*."+key+"="+f.Value.String())
		}
	}
	for _, name := range []string{"sbom", "provenance"} {
		if v := r.str(name); v != "" {
			out = append(out, "*.attest="+buildflags.CanonicalizeAttest(name, v))
		}
	}
	slices.Sort(out[len(r.list("set")):])
	return out
}

// entitlements allow what is below the working directory, as in buildx, and
// what --allow names.
func (r bakeReader) entitlements() (bake.EntitlementConf, error) {
	allowed, err := bake.ParseEntitlements(r.list("allow"))
	if err != nil {
		return allowed, usage("allow", err)
	}
	wd, err := os.Getwd()
	allowed.FSRead = append(allowed.FSRead, wd)
	allowed.FSWrite = append(allowed.FSWrite, wd)
	return allowed, err
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
	s.Options.Session = append(slices.Clone(o.Session), authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{
		AuthConfigProvider: dockerconfig.LoadAuthConfig(r.cli),
	}))
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
	return s, s.link(all, map[string]bool{name: true})
}

// link collects the targets that the contexts of s name, and of those in turn.
func (s *Spec) link(all map[string]buildx.Options, seen map[string]bool) error {
	return collectLinks(s.Options, all, seen, func(name string, o buildx.Options) {
		if s.linked == nil {
			s.linked = map[string]buildx.Options{}
		}
		o.Session = s.Options.Session
		s.linked[name] = o
	})
}

func collectLinks(o buildx.Options, all map[string]buildx.Options, seen map[string]bool, found func(string, buildx.Options)) error {
	for _, name := range links(o) {
		if seen[name] {
			continue
		}
		other, ok := all[name]
		if !ok {
			return &UsageError{Value: name, Reason: "no such target"}
		}
		seen[name] = true
		found(name, other)
		if err := collectLinks(other, all, seen, found); err != nil {
			return err
		}
	}
	return nil
}

// links are the targets that the contexts of a target name.
func links(o buildx.Options) []string {
	var out []string
	for _, c := range o.Inputs.NamedContexts {
		if name, ok := strings.CutPrefix(c.Path, targetContext); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// targetContext is what stands before a target's name in a context.
const targetContext = "target:"

// linkedTargets are the targets that one platform of s is built from, named so
// that platforms do not share them, and built for this platform alone.
func (s *Spec) linkedTargets(p oci.Platform, label string) map[string]buildx.Options {
	out := map[string]buildx.Options{}
	for name, o := range s.linked {
		own := *s
		own.Options, own.overrides = o, nil
		t := platformOptions(&own, p)
		t.CacheTo = nil
		t.Exports = []client.ExportEntry{{Type: "cacheonly"}}
		out[linkedName(name, p, label)] = s.relinked(t, p, label)
	}
	return out
}

// relinked makes contexts name the targets of this platform and pass.
func (s *Spec) relinked(o buildx.Options, p oci.Platform, label string) buildx.Options {
	if len(s.linked) == 0 {
		return o
	}
	o.Inputs.NamedContexts = maps.Clone(o.Inputs.NamedContexts)
	for k, c := range o.Inputs.NamedContexts {
		if name, ok := strings.CutPrefix(c.Path, targetContext); ok {
			c.Path = targetContext + linkedName(name, p, label)
			o.Inputs.NamedContexts[k] = c
		}
	}
	return o
}

func linkedName(name string, p oci.Platform, label string) string {
	return targetName(p, label) + " " + name
}
