package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type buildOptions struct {
	registryFlags
	publishFlags
	nodes          []string
	nodeTimeout    time.Duration
	allowEmulation bool
	relay          bool
	keepGoing      bool
	noBinaryCheck  bool
	perPlatform    buildkit.PlatformFlags
	required       []string
	buildkitd      string
	json           bool
}

func newBuild(h Host) *cobra.Command {
	var o buildOptions
	cmd := &cobra.Command{
		Use:   "build [OPTIONS] PATH | URL | -",
		Short: "Build on several nodes and publish one index",
		Long: `Build every platform on a node that fits and publish the results as exactly one
index. All flags of "docker buildx build" are taken, with their meaning there.

Nodes are those of --node; else those of the buildx builder named by --builder or
selected; else Docker Engine; else a buildkitd that is started and stopped here.
With --push, every node pushes its image by digest; the index is made here, and
each tag moves once, after the index was read back whole. The image id of
--iidfile and -q is the digest of the index. Without --push, or beside it, outputs
of several platforms on several nodes are put together here: an image layout
(type=oci), an engine with containerd's image store (--load), files (type=local
and type=tar). All other outputs are buildx's own.

With several platforms each has a cache of its own, as one would overwrite the
other's: --cache-to type=registry,ref=REPO:TAG writes REPO:TAG-OS-ARCH[-VARIANT],
type=local,dest=DIR writes DIR/OS-ARCH[-VARIANT], and type=gha, s3 and azblob add
-OS-ARCH[-VARIANT] to scope or name. --cache-from reads both: the name as it is
given, and that of the platform. A build of one platform elsewhere, and other
tools, have to name the latter.`,
		Args: exactly(1, "one build context (a path, a URL, or - for standard input)"),
	}
	c, err := command(h)
	if err != nil {
		return broken(cmd, err)
	}
	f := cmd.Flags()
	f.AddFlagSet(c.Flags())
	o.addNodes(f)
	o.addPlatforms(f)
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	o.registryFlags.add(f)
	o.publishFlags.add(f)
	f.StringVar(&o.planOut, "plan-out", "", "Build, push everything below the index by digest, write the plan for the index and its tags to a `file`; run it with: manifold apply")
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runBuild(cmd.Context(), h, o, c, args[0]) }
	return cmd
}

// addNodes adds the flags that say where and how builds run.
func (o *buildOptions) addNodes(f *pflag.FlagSet) {
	f.StringArrayVar(&o.nodes, "node", nil, "Node to build on, `PLATFORM[,PLATFORM]=ENDPOINT`; endpoints are unix://, tcp://, ssh://, docker-container:// and kube-pod://")
	f.DurationVar(&o.nodeTimeout, "node-timeout", 20*time.Second, "How long a node may take to answer")
	f.BoolVar(&o.allowEmulation, "allow-emulation", false, "Build a platform that no node lists all the same")
	f.BoolVar(&o.relay, "relay", false, "Nodes push nothing; what they make passes through here, and what the registry has is skipped")
	f.BoolVar(&o.keepGoing, "keep-going", false, "Finish the other platforms when one fails; nothing is tagged all the same")
	f.StringSliceVar(&o.required, "required", nil, "`Platforms` that must succeed; the others are left out of the index when they fail")
	f.BoolVar(&o.noBinaryCheck, "no-binary-check", false, "Publish also when the binaries in an image are for another processor than its label says")
	f.StringVar(&o.buildkitd, "buildkitd", "", "`Path` of the buildkitd to start when there is no other node")
}

// addPlatforms adds the flags that are about one platform each.
func (o *buildOptions) addPlatforms(f *pflag.FlagSet) {
	f.StringArrayVar(&o.perPlatform.Files, "platform-file", nil, "Dockerfile of one platform, `PLATFORM=FILE`")
	f.StringArrayVar(&o.perPlatform.Targets, "platform-target", nil, "Target stage of one platform, `PLATFORM=TARGET`")
	f.StringArrayVar(&o.perPlatform.Args, "platform-arg", nil, "Build argument of one platform, `PLATFORM:KEY=VALUE`")
}

func command(h Host) (*buildkit.Command, error) {
	cli, err := buildkit.NewDockerCLI(h.In, h.Out, h.Err)
	if err != nil {
		return nil, err
	}
	return buildkit.NewCommand(cli)
}

func runBuild(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, contextPath string) error {
	spec, err := c.ReadSpec(contextPath, h.Env)
	if err != nil {
		return err
	}
	if err := spec.Override(o.perPlatform); err != nil {
		return err
	}
	if err := o.check(false, outputFile{"iidfile", spec.IIDFile}, outputFile{"metadata-file", spec.MetadataFile}); err != nil {
		return err
	}
	if err := removeResults(spec); err != nil {
		return err
	}
	local := &localNode{host: h, buildkitd: o.buildkitd}
	defer local.close()
	nodes, err := openNodes(ctx, h, o, c, spec, local)
	if err != nil {
		return err
	}
	defer nodes.Close()
	if spec.Push {
		return pushBuild(ctx, h, o, c, spec, nodes)
	}
	if o.publishFlags.set() {
		return usage("--expect, --no-clobber, --receipt and --plan-out want --push")
	}
	if nodes.MustCombine(spec) {
		return exportBuild(ctx, h, o, c, spec, nodes)
	}
	if spec.Overridden() || o.keepGoing || len(o.required) > 0 {
		return usage("--platform-file, --platform-target, --platform-arg, --keep-going and --required want --push, or an output of type oci, local or tar")
	}
	if len(o.nodes) == 0 && local.started == nil {
		return c.Run(ctx, contextPath)
	}
	p, err := buildkit.NewProgress(ctx, h.Err, spec.Progress, describe(nodes))
	if err != nil {
		return err
	}
	return c.Plain(ctx, spec, nodes, p)
}

func openNodes(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, spec *buildkit.Spec, local *localNode) (*buildkit.Nodes, error) {
	flags, err := nodeFlags(o.nodes)
	if err != nil {
		return nil, err
	}
	noAttest, _ := strconv.ParseBool(h.getenv("BUILDX_NO_DEFAULT_ATTESTATIONS"))
	return buildkit.OpenNodes(ctx, buildkit.NodeOptions{
		DockerCLI: c.CLI(), Builder: spec.Builder, Nodes: flags, Local: local.start,
		Timeout: o.nodeTimeout, NoDefaultAttestations: noAttest, Report: warnings(h),
	})
}

func describe(n *buildkit.Nodes) string {
	name, driver := n.Name()
	return fmt.Sprintf("building with %q instance using %s driver", name, driver)
}

// pushBuild is the walk: build on the nodes, publish, then the files.
func pushBuild(ctx context.Context, h Host, o buildOptions, c *buildkit.Command, spec *buildkit.Spec, nodes *buildkit.Nodes) error {
	opts, err := o.library(spec)
	if err != nil {
		return err
	}
	p, err := buildkit.NewProgress(ctx, h.Err, spec.Progress, describe(nodes))
	if err != nil {
		return err
	}
	m := o.registryFlags.library(h, p.Sink())
	defer m.Close()
	opts.Nodes = nodes.Build(spec, buildkit.BuildOptions{
		Registry: m, Relay: o.relay, NoBinaryCheck: o.noBinaryCheck, Progress: p.Writer(), Report: p.Sink(),
	})
	err = otherOutputs(ctx, o, c, spec, opts.Targets, nodes, m, p)
	var built manifold.Built
	if err == nil {
		built, err = m.Build(ctx, opts)
	}
	_ = p.Wait() // a display that nobody sees does not fail a publish
	o.compared(h, built.Receipt)
	out := outputFlags{json: o.json, quiet: spec.Quiet}
	if err != nil {
		return out.publishFailed(h, built.Receipt, o.failed(built.Receipt, err))
	}
	unwritten := writeResults(spec, spec.Names, built, p)
	if o.planOut != "" {
		return errors.Join(o.writePlan(built.Plan), unwritten, out.planned(h.Out, built.Plan))
	}
	return published(built.Receipt, func() error { return out.print(h.Out, built.Receipt) }, o.writeReceipt(built.Receipt), unwritten)
}

// library turns the spec into options of the library.
func (o *buildOptions) library(spec *buildkit.Spec) (manifold.BuildOptions, error) {
	opts := manifold.BuildOptions{
		Platforms: spec.Platforms, AllowEmulation: o.allowEmulation, KeepGoing: o.keepGoing,
		Annotations: spec.IndexAnnotations, PlanOnly: o.planOut != "",
	}
	for _, a := range spec.DescriptorAnnotations {
		opts.DescriptorAnnotations = append(opts.DescriptorAnnotations, manifold.DescriptorAnnotation{Platform: a.Platform, Key: a.Key, Value: a.Value})
	}
	if isOCI, err := strconv.ParseBool(spec.Image["oci-mediatypes"]); err == nil && isOCI {
		opts.MediaType = oci.MediaTypeIndex
	}
	var err error
	if opts.Required, err = requiredOf(o.required, spec.Platforms); err != nil {
		return opts, err
	}
	insecure, _ := strconv.ParseBool(spec.Image["registry.insecure"])
	for _, name := range spec.Names {
		r, err := ref.Parse(name)
		if err != nil {
			return opts, err
		}
		if insecure {
			o.plainHTTP, o.insecure = append(o.plainHTTP, r.Host), append(o.insecure, r.Host)
		}
		if spec.PushByDigest {
			r = r.Repo()
		} else {
			r = r.OrLatest()
		}
		opts.Targets = append(opts.Targets, r)
	}
	opts.PublishOptions, err = o.publishing(opts.Targets)
	return opts, err
}

// requiredOf reads --required: some of the platforms that are built.
func requiredOf(names []string, platforms []oci.Platform) ([]oci.Platform, error) {
	var out []oci.Platform
	for _, name := range names {
		p, err := oci.ParsePlatform(name)
		if err != nil {
			return nil, err
		}
		built := func(q oci.Platform) bool { return oci.PlatformKey(p) == oci.PlatformKey(q) }
		if !slices.ContainsFunc(platforms, built) {
			return nil, usage("--required %q: the platform is not built: name it with --platform", name)
		}
		out = append(out, p)
	}
	return out, nil
}

// removeResults removes the files of an earlier run, before anything can fail
// that this run is about.
func removeResults(spec *buildkit.Spec) error {
	return errors.Join(buildkit.RemoveResult(spec.IIDFile), buildkit.RemoveResult(spec.MetadataFile))
}

// writeResults writes the files that scripts wait for, after everything else.
func writeResults(spec *buildkit.Spec, names []string, built manifold.Built, p *buildkit.Progress) error {
	if spec.MetadataFile != "" {
		published := buildkit.Published{Index: built.Index.Descriptor, Names: names, Platforms: buildkit.PublishedPlatforms(built.Images)}
		published.Index.Annotations = spec.IndexDescriptorAnnotations
		if spec.MetadataWarnings {
			published.Warnings = p.Warnings()
		}
		if err := buildkit.WriteMetadata(spec.MetadataFile, buildkit.Metadata(published)); err != nil {
			return err
		}
	}
	return buildkit.WriteIIDFile(spec.IIDFile, built.Index.Digest.String())
}

// localNode is the buildkitd of this run, if one is needed.
type localNode struct {
	host      Host
	buildkitd string
	started   *buildkit.Local
}

func (l *localNode) start(ctx context.Context) (string, error) {
	data, err := l.host.dataDir()
	if err != nil {
		return "", err
	}
	l.started, err = buildkit.StartLocal(ctx, buildkit.LocalOptions{
		Buildkitd: l.buildkitd, Beside: filepath.Dir(l.host.Executable), Path: l.host.getenv("PATH"),
		StateDir: filepath.Join(data, "buildkit"),
		Waiting: func(dir string) {
			_, _ = fmt.Fprintf(l.host.Err, "waiting for another build to finish with %s\n", dir)
		},
	})
	if err != nil {
		return "", err
	}
	return l.started.Endpoint(), nil
}

func (l *localNode) close() {
	if l.started != nil {
		_ = l.started.Close()
	}
}
