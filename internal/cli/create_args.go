package cli

import (
	"context"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/spec"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

// fromArgs are the flags of manifest-tool's from-args.
type fromArgs struct {
	createOptions
	parts       []string
	template    string
	target      string
	more        []string
	annotations map[string]string
}

func newFromArgs(h Host) *cobra.Command {
	var o fromArgs
	cmd := &cobra.Command{
		Use:   "from-args --platforms PLATFORM,... --template TEMPLATE --target TARGET",
		Short: "Make one index of images that are named alike, as manifest-tool does",
		Long: `Make one index of images that are named alike. In the template the first OS, ARCH
and VARIANT stand for the parts of each platform:

  --platforms linux/amd64,linux/arm/v7 --template team/app:OS-ARCHVARIANT

takes team/app:linux-amd64 and team/app:linux-armv7. An image whose config is for
another platform is an error.
` + exitHelp,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), h) },
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.parts, "platforms", nil, "The `platforms`, one source each")
	f.StringVar(&o.template, "template", "", "How the sources are called, with OS, ARCH and VARIANT in it")
	f.StringVar(&o.target, "target", "", "`Reference` to publish under")
	f.StringSliceVar(&o.more, "tags", nil, "More `tags` of the target's repository")
	f.StringToStringVar(&o.annotations, "annotations", nil, "Annotations of the index, `key=value,...`")
	o.addShared(f)
	return cmd
}

func (o fromArgs) run(ctx context.Context, h Host) error {
	opts, err := o.options()
	if err != nil {
		return err
	}
	return o.create(ctx, h, opts)
}

func (o fromArgs) options() (manifold.CreateOptions, error) {
	opts, err := o.shared()
	switch {
	case err != nil:
		return opts, err
	case len(o.parts) == 0 || o.template == "" || o.target == "":
		return opts, usage("from-args wants --platforms, --template and --target")
	}
	var parts []string
	for _, p := range o.parts {
		parts = append(parts, strings.TrimSpace(p))
	}
	if opts.Inputs, err = spec.Expand(o.template, parts); err != nil {
		return opts, &exitError{code: ExitUsage, err: err}
	}
	if err := annotate(&opts, o.createOptions.annotations); err != nil {
		return opts, err
	}
	for k, v := range o.annotations {
		if opts.Annotations == nil {
			opts.Annotations = map[string]string{}
		}
		opts.Annotations[k] = v
	}
	tags, err := o.targets()
	if err != nil {
		return opts, err
	}
	return opts, o.publishTo(&opts, tags)
}

// targets are the target and, in its repository, more tags.
func (o fromArgs) targets() ([]string, error) {
	r, err := ref.Parse(o.target)
	if err != nil {
		return nil, &exitError{code: ExitUsage, err: err}
	}
	out := []string{o.target}
	for _, tag := range o.more {
		out = append(out, r.Name()+":"+strings.TrimSpace(tag))
	}
	return slices.Compact(out), nil
}

func newFromSpec(h Host) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use:   "from-spec FILE",
		Short: "Make the index that a YAML file describes, as manifest-tool does",
		Long: `Make the index that a YAML file describes:

  image: team/app:1.0
  tags: [latest]
  annotations: {org.opencontainers.image.version: "1.0"}
  manifests:
    - image: team/app:1.0-amd64
      platform: {os: linux, architecture: amd64}
    - image: oci:./arm64

The platform of an entry may be left out: it is then that of the image. Keys that
are not known are an error.
` + exitHelp,
		Args: exactly(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.spec, o.preferIndex = args[0], true
			return runCreate(cmd.Context(), h, o, nil)
		},
	}
	o.addShared(cmd.Flags())
	return cmd
}
