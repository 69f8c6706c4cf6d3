package cli

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type createOptions struct {
	registryFlags
	outputFlags
	publishFlags
	tags         []string
	platforms    []string
	annotations  []string
	kind         string
	dryRun       bool
	metadataFile string
	progress     string
}

func newCreate(h Host) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use:   "create -t TARGET [-t TARGET...] SOURCE...",
		Short: "Make one index of existing images and publish it",
		Long: `Make one index of images that exist and publish it under every target. Sources
are references, or image layouts (oci:DIR[:TAG], oci-archive:FILE[:TAG]). Indexes
are flattened, attestations stay with their images, children keep their bytes and
are mounted or copied where the target does not have them. Tags move last, each
once, onto an index that was read back whole. Prints the digest of the index.`,
		Args: atLeast(1, "at least one source"),
		RunE: func(cmd *cobra.Command, args []string) error { return runCreate(cmd.Context(), h, o, args) },
	}
	f := cmd.Flags()
	f.StringArrayVarP(&o.tags, "tag", "t", nil, "`Reference` to publish under; may be repeated, also for several registries")
	f.StringSliceVarP(&o.platforms, "platform", "p", nil, "Keep only these `platforms`")
	f.StringArrayVar(&o.annotations, "annotation", nil, "Annotation, `[index|manifest-descriptor[PLATFORM]:]key=value`; without a prefix, of the index")
	f.StringVar(&o.kind, "type", "", "Media type of the index: `oci or docker` (default: as the sources have it)")
	f.BoolVar(&o.dryRun, "dry-run", false, "Print the index and write nothing")
	f.StringVar(&o.metadataFile, "metadata-file", "", "Write the result to a `file`, when all is done")
	f.StringVar(&o.progress, "progress", "auto", "Progress on stderr: auto, none, plain, rawjson, tty")
	o.registryFlags.add(f)
	o.outputFlags.add(f)
	o.publishFlags.add(f)
	o.addPlan(f)
	return cmd
}

func runCreate(ctx context.Context, h Host, o createOptions, args []string) error {
	opts, err := o.options(args)
	if err != nil {
		return err
	}
	mode, err := buildkit.ProgressMode(o.display(o.progress))
	if err != nil {
		return err
	}
	p, err := buildkit.NewProgress(ctx, h.Err, mode, "")
	if err != nil {
		return err
	}
	m := o.library(h, p.Sink())
	defer m.Close()
	made, err := m.Create(ctx, opts)
	_ = p.Wait() // a display that nobody sees does not fail a publish
	if !opts.DryRun {
		err = o.record(made.Receipt, err)
	}
	if err != nil {
		return o.publishFailed(h, made.Receipt, err)
	}
	if o.planOut != "" {
		return o.showPlan(h, made.Plan)
	}
	if o.metadataFile != "" && !o.dryRun {
		if err := buildkit.WriteMetadata(o.metadataFile, metadata(made, opts.Targets)); err != nil {
			return err
		}
	}
	if o.dryRun {
		return printIndex(h.Out, made.Index)
	}
	return o.print(h.Out, made.Receipt)
}

// metadata is what buildx imagetools writes, where image.name is the
// repositories without tags, and the digest by itself.
func metadata(made manifold.Created, targets []ref.Reference) map[string]any {
	names := make([]string, len(targets))
	for i, t := range targets {
		names[i] = t.Name()
	}
	slices.Sort(names)
	return map[string]any{
		"containerimage.descriptor": made.Index.Descriptor,
		"containerimage.digest":     made.Index.Digest,
		"image.name":                strings.Join(slices.Compact(names), ","),
	}
}

func (o createOptions) options(args []string) (manifold.CreateOptions, error) {
	opts := manifold.CreateOptions{DryRun: o.dryRun || o.planOut != ""}
	var err error
	if opts.Targets, err = targets(o.tags); err != nil {
		return opts, err
	}
	if opts.PublishOptions, err = o.publishing(opts.Targets); err != nil {
		return opts, err
	}
	if len(opts.Targets) == 0 && !o.dryRun {
		return opts, usage("can't push with no tags specified, please set --tag or --dry-run")
	}
	for _, a := range args {
		l, err := ref.ParseLocation(a)
		if err != nil {
			return opts, &exitError{code: ExitUsage, err: err}
		}
		opts.Sources = append(opts.Sources, l)
	}
	if opts.Platforms, err = platforms(o.platforms); err != nil {
		return opts, err
	}
	if opts.MediaType, err = indexType(o.kind); err != nil {
		return opts, err
	}
	return opts, annotate(&opts, o.annotations)
}

func indexType(kind string) (string, error) {
	switch kind {
	case "":
		return "", nil
	case "oci":
		return oci.MediaTypeIndex, nil
	case "docker":
		return oci.MediaTypeDockerList, nil
	}
	return "", usage("--type %s: want oci or docker", kind)
}

func platforms(in []string) ([]oci.Platform, error) {
	var out []oci.Platform
	for _, s := range in {
		for part := range strings.SplitSeq(s, ",") {
			p, err := oci.ParsePlatform(strings.TrimSpace(part))
			if err != nil {
				return nil, &exitError{code: ExitUsage, err: err}
			}
			out = append(out, p)
		}
	}
	return out, nil
}

// annotate reads --annotation as buildx spells it.
func annotate(o *manifold.CreateOptions, in []string) error {
	for _, s := range in {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return usage("--annotation %q: want key=value", s)
		}
		kind, name, prefixed := strings.Cut(key, ":")
		switch {
		case !prefixed || kind == "index":
			if !prefixed {
				name = key
			}
			if o.Annotations == nil {
				o.Annotations = map[string]string{}
			}
			o.Annotations[name] = value
		case strings.HasPrefix(kind, "manifest-descriptor"):
			a, err := descriptorAnnotation(kind, name, value)
			if err != nil {
				return err
			}
			o.DescriptorAnnotations = append(o.DescriptorAnnotations, a)
		default:
			return usage("--annotation %q: %s annotations cannot be set here: children keep their bytes", s, kind)
		}
	}
	return nil
}

func descriptorAnnotation(kind, key, value string) (manifold.DescriptorAnnotation, error) {
	a := manifold.DescriptorAnnotation{Key: key, Value: value}
	inner, ok := strings.CutPrefix(strings.TrimPrefix(kind, "manifest-descriptor"), "[")
	if !ok {
		return a, nil
	}
	p, err := oci.ParsePlatform(strings.TrimSuffix(inner, "]"))
	if err != nil {
		return a, &exitError{code: ExitUsage, err: err}
	}
	a.Platform = &p
	return a, nil
}

// printIndex prints the exact bytes and a newline, as buildx imagetools does.
func printIndex(w io.Writer, b oci.Blob) error {
	_, err := fmt.Fprintf(w, "%s\n", b.Bytes)
	return err
}
