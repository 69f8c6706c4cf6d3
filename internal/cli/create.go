package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

type createOptions struct {
	registryFlags
	outputFlags
	publishFlags
	editFlags
	tags          []string
	files         []string
	spec          string
	platforms     []string
	expected      []string
	annotations   []string
	labels        []string
	kind          string
	preferIndex   bool
	ignoreMissing bool
	dryRun        bool
	metadataFile  string
	progress      string
	builder       string
	referrers     bool
	fallbackTags  bool
}

// editFlags change the index that the first tag names.
type editFlags struct {
	appends       bool
	replace       bool
	remove        []string
	createMissing bool
}

const createHelp = `Make one index of images that exist and publish it under every target. Indexes
are flattened, attestations stay with their images, children keep their bytes and
are mounted or copied where the target does not have them. Tags move last, each
once, onto an index that was read back whole. Prints the digest of the index.

Sources, all kinds in one command:
  REFERENCE, REPOSITORY@DIGEST   in any registry
  DIGEST                         in the repository of the target
  oci:DIR[:TAG], oci-archive:FILE[:TAG]
  docker-archive:FILE[:NAME]     what docker save wrote
  docker-daemon:NAME             an image of the Docker Engine at DOCKER_HOST
  -f FILE                        with one of these, or the JSON of a descriptor

With --append, --replace or --remove, or without any source, the index that the
first -t names is edited. Edits that race lose nothing: a tag that another writer
has moved meanwhile is read again, and the edit is made on what it names now.

--annotation manifest:KEY=VALUE makes other manifests, with other digests. The
attestations of these images speak of what they were, and are left out.`

func newCreate(h Host) *cobra.Command {
	var o createOptions
	cmd := &cobra.Command{
		Use:   "create -t TARGET [-t TARGET...] SOURCE...",
		Short: "Make one index of existing images, or edit one, and publish it",
		Long:  createHelp,
		Args:  cobra.ArbitraryArgs,
		RunE:  func(cmd *cobra.Command, args []string) error { return runCreate(cmd.Context(), h, o, args) },
	}
	o.add(cmd.Flags())
	cmd.AddCommand(newFromArgs(h), newFromSpec(h))
	return cmd
}

func (o *createOptions) add(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.tags, "tag", "t", nil, "`Reference` to publish under; may be repeated, also for several registries")
	f.StringArrayVarP(&o.files, "file", "f", nil, "Read a source from a `file`; may be repeated, files come before other sources")
	f.StringVar(&o.spec, "spec", "", "Read targets, sources and annotations from a YAML `file`, as manifest-tool has it")
	f.StringArrayVarP(&o.platforms, "platform", "p", nil, "Keep only these `platforms`")
	f.StringArrayVar(&o.labels, "annotate-platform", nil, "Change the platform of an entry, `PLATFORM|DIGEST,FIELD=VALUE...`; fields are os, architecture, variant, os.version and os.features (a+b), an empty value clears one")
	f.BoolVar(&o.preferIndex, "prefer-index", true, "Make an index also of a single image; --prefer-index=false publishes that image as it is")
	o.editFlags.add(f)
	o.addShared(f)
	f.BoolVarP(&o.verbose, "debug", "D", false, "Same as --verbose; for commands written for docker buildx")
}

// addShared adds what from-args and from-spec take, too.
func (o *createOptions) addShared(f *pflag.FlagSet) {
	f.StringArrayVar(&o.annotations, "annotation", nil, "Annotation, `[TYPE[PLATFORM][,TYPE...]:]KEY=VALUE`; types are index (the default), manifest-descriptor and manifest")
	f.StringArrayVar(&o.expected, "expect-platforms", nil, "Write nothing unless the result has exactly these `platforms`")
	f.BoolVar(&o.ignoreMissing, "ignore-missing", false, "Leave out sources that are not there; one that could not be asked about is an error all the same")
	f.BoolVar(&o.referrers, "referrers", false, "Also copy what refers to the images, as signatures, to targets in another repository")
	f.BoolVar(&o.fallbackTags, "fallback-tags", false, "Write the tags sha256-HEX that list referrers at registries without the referrers API")
	f.StringVar(&o.kind, "type", "", "Media type of the index: `oci or docker` (default: as the sources have it)")
	f.BoolVar(&o.dryRun, "dry-run", false, "Print the index and publish nothing")
	f.StringVar(&o.metadataFile, "metadata-file", "", "Write the result to a `file`, when all is done; what it would be, with --dry-run and --plan-out")
	f.StringVar(&o.progress, "progress", "auto", "Progress on stderr: auto, none, plain, rawjson, tty")
	f.StringVar(&o.builder, "builder", "", "Has no effect; for commands written for docker buildx")
	o.registryFlags.add(f)
	o.outputFlags.add(f)
	o.publishFlags.add(f)
	o.addPlan(f)
}

func (e *editFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&e.appends, "append", false, "Add the sources to the index that the first -t names")
	f.BoolVar(&e.replace, "replace", false, "Put the sources in the place of the images for the same platforms in the index that the first -t names; with --append also add those that are not there")
	f.StringArrayVar(&e.remove, "remove", nil, "Remove the entries with a `platform or digest` from the index that the first -t names; may be repeated")
	f.BoolVar(&e.createMissing, "create-missing", false, "With --append: a tag that is not there yet is an empty index")
}

func runCreate(ctx context.Context, h Host, o createOptions, args []string) error {
	opts, err := o.options(args)
	if err != nil {
		return err
	}
	return o.create(ctx, h, opts)
}

// create makes the one library call and draws what came of it.
func (o createOptions) create(ctx context.Context, h Host, opts manifold.CreateOptions) error {
	if err := o.check(o.dryRun, outputFile{"metadata-file", o.metadataFile}); err != nil {
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
	sink := p.Sink()
	if o.display(o.progress) == "none" {
		sink = warnings(h)
	}
	m := o.library(h, sink)
	defer m.Close()
	made, err := m.Create(ctx, opts)
	_ = p.Wait() // a display that nobody sees does not fail a publish
	o.compared(h, made.Receipt)
	if err != nil {
		return o.publishFailed(h, made.Receipt, o.failed(made.Receipt, err))
	}
	if opts.DryRun {
		return o.planned(h, made, opts.Targets)
	}
	return published(made.Receipt, func() error { return o.print(h.Out, made.Receipt) },
		o.writeReceipt(made.Receipt), o.writeMetadata(made, opts.Targets))
}

// planned ends a run that publishes nothing. A plan that is no file is shown as
// the index that it would publish.
func (o createOptions) planned(h Host, made manifold.Created, targets []ref.Reference) error {
	if err := errors.Join(o.writePlan(made.Plan), o.writeMetadata(made, targets)); err != nil {
		return err
	}
	switch {
	case o.quiet:
		_, err := fmt.Fprintln(h.Out, made.Index.Digest)
		return err
	case o.planOut != "":
		return o.outputFlags.planned(h.Out, made.Plan)
	}
	return printIndex(h.Out, made.Index)
}

func (o createOptions) writeMetadata(made manifold.Created, targets []ref.Reference) error {
	return buildkit.WriteMetadata(o.metadataFile, metadata(made, targets))
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

// printIndex prints the exact bytes and a newline, as buildx imagetools does.
func printIndex(w io.Writer, b oci.Blob) error {
	return rawDocument(w, append(slices.Clone(b.Bytes), '\n'))
}
