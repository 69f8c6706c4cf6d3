package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

type copyOptions struct {
	registryFlags
	outputFlags
	publishFlags
	allTags      bool
	tags         []string
	platforms    []string
	referrers    bool
	fallbackTags bool
	cosign       bool
	dryRun       bool
	digestFile   string
	progress     string
}

func newCopy(h Host) *cobra.Command {
	var o copyOptions
	cmd := &cobra.Command{
		Use:   "copy SOURCE DESTINATION...",
		Short: "Copy whole images between registries, layouts and archives",
		Long: `Copy an index with all its platforms, a single image or an artifact, byte for
byte, to any number of destinations: references, directories in OCI layout
(oci:DIR[:TAG]) and archives of them (oci-archive:FILE[:TAG], replaced when there
is one). Content goes everywhere first, is read back, and then the tags move. A
destination without a tag gets "latest".

A destination that has the tag already is not trusted: every manifest and blob is
looked for (one HEAD each), and what is missing is sent. Prints the digest.

With --platform an index keeps only those platforms and their attestations; what
is published is then another index, with another digest.`,
		Args: atLeast(2, "a source and at least one destination"),
		RunE: func(cmd *cobra.Command, args []string) error { return runCopy(cmd.Context(), h, o, args) },
	}
	f := cmd.Flags()
	f.BoolVarP(&o.allTags, "all-tags", "a", false, "Copy every tag of a repository or layout; source and destinations have none")
	f.StringArrayVar(&o.tags, "tags", nil, "Copy the tags that match a `pattern` (as *, 1.?, [a-z]*); may be repeated; implies --all-tags")
	f.StringSliceVarP(&o.platforms, "platform", "p", nil, "Keep only these `platforms`")
	f.BoolVar(&o.referrers, "referrers", false, "Copy what refers to the index, to its children, and to those again (signatures, SBOMs)")
	f.BoolVar(&o.fallbackTags, "fallback-tags", false, "With --referrers: write sha256-HEX tags where a registry has no referrers API")
	f.BoolVar(&o.cosign, "cosign", false, "Copy cosign's tags sha256-HEX.sig, .att and .sbom of everything that is copied")
	f.BoolVar(&o.dryRun, "dry-run", false, "Print the plan and publish nothing")
	f.StringVar(&o.digestFile, "digest-file", "", "Write the digest to a `file`, when all is done; with --dry-run and --plan-out the one to be")
	f.StringVar(&o.progress, "progress", "auto", "Progress on stderr: auto, none, plain, rawjson, tty")
	o.registryFlags.add(f)
	o.outputFlags.add(f)
	o.publishFlags.add(f)
	o.addPlan(f)
	return cmd
}

func runCopy(ctx context.Context, h Host, o copyOptions, args []string) error {
	opts, err := o.options(args)
	if err != nil {
		return err
	}
	if err := o.check(o.dryRun, outputFile{"digest-file", o.digestFile}); err != nil {
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
	made, err := m.Copy(ctx, opts)
	_ = p.Wait() // a display that nobody sees does not fail a copy
	o.compared(h, made.Receipt)
	if err != nil {
		return o.publishFailed(h, made.Receipt, o.failed(made.Receipt, err))
	}
	if opts.DryRun {
		return o.planned(h, made)
	}
	return published(made.Receipt, func() error { return o.print(h, made) },
		o.writeReceipt(made.Receipt), writeDigest(o.digestFile, made.Receipt.Digest.String()))
}

// planned ends a run that writes nothing anywhere but into files.
func (o copyOptions) planned(h Host, made manifold.Copied) error {
	if err := errors.Join(o.writePlan(made.Plan), writeDigest(o.digestFile, made.Plan.Root.Digest.String())); err != nil {
		return err
	}
	if o.quiet && !o.json && len(made.Images) != 1 {
		return render.CopiedTags(h.Out, made)
	}
	return o.outputFlags.planned(h.Out, made.Plan)
}

func (o copyOptions) options(args []string) (manifold.CopyOptions, error) {
	opts := manifold.CopyOptions{
		AllTags: o.allTags || len(o.tags) > 0, Tags: o.tags, Referrers: o.referrers,
		FallbackTags: o.fallbackTags, Cosign: o.cosign, DryRun: o.dryRun || o.planOut != "",
	}
	switch {
	case o.fallbackTags && !o.referrers:
		return opts, usage("--fallback-tags wants --referrers")
	case o.digestFile != "" && opts.AllTags:
		return opts, usage("--digest-file: there is one digest per tag")
	}
	var err error
	if opts.Source, err = ref.ParseLocation(args[0]); err != nil {
		return opts, &exitError{code: ExitUsage, err: err}
	}
	if s := opts.Source; opts.AllTags && (s.Tag != "" || s.Reference.Tag != "" || s.Reference.Digest != "") {
		return opts, usage("%s: with --all-tags the source has no tag", args[0])
	}
	var names []ref.Reference
	for _, a := range args[1:] {
		l, err := destination(a, !opts.AllTags)
		if err != nil {
			return opts, err
		}
		opts.Targets = append(opts.Targets, l)
		names = append(names, l.AsReference())
	}
	if opts.Platforms, err = platforms(o.platforms); err != nil {
		return opts, err
	}
	opts.PublishOptions, err = o.publishing(names)
	return opts, err
}

// destination reads a place to write to. One without a tag gets "latest" if it
// is to have one.
func destination(s string, tagged bool) (ref.Location, error) {
	l, err := ref.ParseLocation(s)
	if err != nil {
		return l, &exitError{code: ExitUsage, err: err}
	}
	switch {
	case l.Transport == ref.Registry && l.Reference.Tag != "" && l.Reference.Digest != "":
		return l, usage("%q: a destination has a tag or a digest, not both", s)
	case l.Transport == ref.Registry && tagged:
		l.Reference = l.Reference.OrLatest()
		return l, nil
	case l.Transport == ref.Registry:
		return l, nil
	case l.Transport != ref.OCILayout && l.Transport != ref.OCIArchive:
		return l, usage("%q: is only read; copy writes to registries, oci:DIR and oci-archive:FILE", s)
	}
	if l.Path, err = filepath.Abs(l.Path); err != nil {
		return l, err
	}
	if l.Tag == "" && tagged {
		l.Tag = "latest"
	}
	return l, nil
}

// print prints what was copied: the digest, a line per tag, or one document.
func (o copyOptions) print(h Host, made manifold.Copied) error {
	if o.json {
		return render.JSON(h.Out, render.NewCopy(made))
	}
	if o.quiet && len(made.Images) != 1 {
		return render.CopiedTags(h.Out, made)
	}
	if o.quiet {
		_, err := fmt.Fprintln(h.Out, made.Receipt.Digest)
		return err
	}
	return render.Copied(h.Out, made)
}
