package buildkit

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/docker/buildx/build"
	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/util/buildflags"
	"github.com/docker/buildx/util/confutil"
	"github.com/docker/buildx/util/dockerutil"
	"github.com/docker/buildx/util/progress"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
	"github.com/spf13/pflag"
)

// plainTarget is the name of the only target, which buildx shows nowhere then.
const plainTarget = "default"

// NodeLister lists the nodes that a build may use.
type NodeLister interface {
	BuilderNodes(ctx context.Context) ([]builder.Node, error)
}

// Run is "buildx build" with the flags as parsed, for a build that pushes
// nothing: outputs, files, printed id and exit code are buildx's own. It writes
// to the process's standard streams, as buildx does. A failure is an
// [*ExitError].
//
// In one case it does less: with --call or --check, outputs are left out.
// buildx 0.38 hands them to BuildKit, which then exports an empty image, and
// with --push moves the tag to it.
func (c *Command) Run(ctx context.Context, contextPath string) error {
	call, err := buildflags.ParseCallFunc(c.flags.Lookup("call").Value.String())
	if err != nil {
		return usage("call", err)
	}
	if call != nil {
		if err := c.dropOutputs(); err != nil {
			return err
		}
	}
	return exitError(c.run(ctx, contextPath))
}

func (c *Command) dropOutputs() error {
	for _, name := range []string{"push", "load"} {
		if err := c.flags.Lookup(name).Value.Set("false"); err != nil {
			return err
		}
	}
	if v, ok := c.flags.Lookup("output").Value.(pflag.SliceValue); ok {
		return v.Replace(nil)
	}
	return nil
}

// Plain is what [Command.Run] does, on nodes that no buildx builder knows. It
// ends p. The image id of -q and what --call asks for go to the CLI's standard
// output. A failure of the build is an [*ExitError].
func (c *Command) Plain(ctx context.Context, spec *Spec, nodes NodeLister, p *Progress) error {
	if err := RemoveResult(spec.IIDFile); err != nil {
		return err
	}
	resp, inputs, err := c.plainBuild(ctx, spec, nodes, p.Writer())
	if werr := p.Wait(); err == nil {
		err = werr
	}
	if err != nil {
		return exitError(err)
	}
	if err := c.writePlain(spec, resp.ExporterResponse, p); err != nil {
		return err
	}
	if spec.Call != nil {
		code, err := printCall(c.cli.Out(), spec, resp.ExporterResponse, inputs)
		if err == nil && code != 0 {
			return &ExitError{Code: code}
		}
		return exitError(err)
	}
	if v, ok := resp.ExporterResponse["frontend.result.inlinemessage"]; ok {
		_, err = fmt.Fprintf(c.cli.Out(), "\n%s\n", v)
	}
	return err
}

// PlainTarget builds a target that pushes nothing, and returns what the node
// said of its outputs.
func (c *Command) PlainTarget(ctx context.Context, spec *Spec, nodes NodeLister, w progress.Writer) (map[string]string, error) {
	resp, _, err := c.plainBuild(ctx, spec, nodes, w)
	if err != nil {
		return nil, exitError(err)
	}
	return resp.ExporterResponse, nil
}

// PlainOutputs writes the outputs beside the pushed one (Spec.Others): one more
// pass of the same build, which BuildKit answers from its cache. It does
// nothing when there are none. Run it before the image is published, so that
// its failure leaves the tags alone; like buildx it cannot write oci and tar
// outputs of a build that needs several nodes.
func (c *Command) PlainOutputs(ctx context.Context, spec *Spec, nodes NodeLister, w progress.Writer) error {
	if len(spec.Others) == 0 {
		return nil
	}
	_, _, err := c.plainBuild(ctx, spec, nodes, w)
	return exitError(err)
}

func (c *Command) plainBuild(ctx context.Context, spec *Spec, nodes NodeLister, w progress.Writer) (*client.SolveResponse, *build.Inputs, error) {
	list, err := nodes.BuilderNodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	targets := map[string]build.Options{plainTarget: plainOptions(spec)}
	for name, o := range spec.linked {
		o.Exports = []client.ExportEntry{{Type: "cacheonly"}}
		targets[name] = o
	}
	resp, err := build.Build(ctx, list, targets, dockerutil.NewClient(c.cli), confutil.NewConfig(c.cli), w, nil)
	if err != nil {
		return nil, nil, err
	}
	inputs := targets[plainTarget].Inputs
	return resp[plainTarget], &inputs, nil
}

// plainOptions puts back what a Spec holds apart. Attributes are copied, since
// buildx writes names into them.
func plainOptions(spec *Spec) build.Options {
	o := spec.Options
	o.Tags, o.Attests, o.Annotations = spec.Tags, spec.Attests, spec.Annotations
	o.Platforms = slices.Clone[[]oci.Platform](spec.Platforms)
	if spec.Call != nil {
		return o
	}
	for _, e := range spec.Others {
		e.Attrs = maps.Clone(e.Attrs)
		o.Exports = append(o.Exports, e)
	}
	return o
}

// writePlain leaves behind what buildx leaves behind after a build.
func (c *Command) writePlain(spec *Spec, resp map[string]string, p *Progress) error {
	if spec.Quiet && spec.Call == nil {
		if _, err := fmt.Fprintln(c.cli.Out(), imageID(resp)); err != nil {
			return err
		}
	}
	p.printDetails()
	if err := WriteIIDFile(spec.IIDFile, imageID(resp)); err != nil {
		return err
	}
	dt := decodeResponse(resp)
	if spec.Call == nil {
		addWarnings(dt, spec.warnings(p))
	}
	return WriteMetadata(spec.MetadataFile, dt)
}

// warnings are those to record, if that is asked for.
func (s *Spec) warnings(p *Progress) []client.VertexWarning {
	if !s.MetadataWarnings {
		return nil
	}
	return p.Warnings()
}
