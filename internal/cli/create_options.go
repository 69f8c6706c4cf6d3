package cli

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/spec"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

// options turns the flags of create into options.
func (o createOptions) options(args []string) (manifold.CreateOptions, error) {
	opts, err := o.shared()
	if err != nil {
		return opts, err
	}
	if o.spec != "" {
		if err := o.addSpec(&opts, o.spec); err != nil {
			return opts, err
		}
	}
	if err := o.addSources(&opts, args); err != nil {
		return opts, err
	}
	if opts.Platforms, err = platforms(o.platforms); err != nil {
		return opts, err
	}
	for _, s := range o.labels {
		l, err := label(s)
		if err != nil {
			return opts, err
		}
		opts.Labels = append(opts.Labels, l)
	}
	opts.Plain = !o.preferIndex
	if err := o.edit(&opts); err != nil {
		return opts, err
	}
	if err := annotate(&opts, o.annotations); err != nil {
		return opts, err
	}
	return opts, o.publishTo(&opts, o.tags)
}

// shared are the options that do not say what and where.
func (o createOptions) shared() (manifold.CreateOptions, error) {
	opts := manifold.CreateOptions{
		DryRun: o.dryRun || o.planOut != "", IgnoreMissing: o.ignoreMissing, Referrers: o.referrers, FallbackTags: o.fallbackTags,
	}
	var err error
	if opts.MediaType, err = indexType(o.kind); err != nil {
		return opts, err
	}
	opts.Expected, err = platforms(o.expected)
	return opts, err
}

// publishTo adds targets, and the preconditions on them.
func (o createOptions) publishTo(opts *manifold.CreateOptions, tags []string) error {
	more, err := targets(tags)
	if err != nil {
		return err
	}
	opts.Targets = append(more, opts.Targets...)
	if opts.PublishOptions, err = o.publishing(opts.Targets); err != nil {
		return err
	}
	if len(opts.Targets) == 0 && (!o.dryRun || opts.Edit != nil) {
		return usage("can't push with no tags specified, please set --tag or --dry-run")
	}
	return nil
}

func (o createOptions) addSources(opts *manifold.CreateOptions, args []string) error {
	for _, name := range o.files {
		b, err := readSmall(name)
		if err != nil {
			return err
		}
		in, err := spec.File(b)
		if err != nil {
			return usage("--file %s: %w", name, err)
		}
		opts.Inputs = append(opts.Inputs, in)
	}
	for _, a := range args {
		in, err := spec.Source(a)
		if err != nil {
			return &exitError{code: ExitUsage, err: err}
		}
		opts.Inputs = append(opts.Inputs, in)
	}
	return nil
}

// notReadable makes a file that was named and cannot be read a usage error.
func notReadable(err error) error {
	var e *fs.PathError
	if !errors.As(err, &e) {
		return err
	}
	return usage("%s: %w", e.Path, e.Err)
}

// readSmall reads a file that a person or a job wrote.
func readSmall(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, notReadable(err)
	}
	if info.Size() > spec.MaxSize {
		return nil, usage("%s: %d bytes, the limit is %d", name, info.Size(), spec.MaxSize)
	}
	b, err := os.ReadFile(name)
	return b, notReadable(err)
}

func (o createOptions) addSpec(opts *manifold.CreateOptions, name string) error {
	b, err := readSmall(name)
	if err != nil {
		return err
	}
	s, err := spec.Parse(b)
	if err != nil {
		return usage("%s: %w", name, err)
	}
	opts.Targets = append(opts.Targets, s.Targets...)
	opts.Inputs = append(opts.Inputs, s.Inputs...)
	if len(s.Annotations) > 0 {
		opts.Annotations = s.Annotations
	}
	return nil
}

// edit decides whether an index is edited: when the flags say so, or when there
// are changes and nothing that a new index could be made of.
func (o createOptions) edit(opts *manifold.CreateOptions) error {
	e := manifold.Edit{Append: o.appends, Replace: o.replace, CreateMissing: o.createMissing}
	for _, s := range o.remove {
		which, err := selector(s)
		if err != nil {
			return err
		}
		e.Remove = append(e.Remove, which)
	}
	if o.createMissing && !o.appends {
		return usage("--create-missing goes with --append")
	}
	bare := len(opts.Inputs) == 0 && len(o.platforms)+len(o.annotations)+len(o.labels)+len(o.kind) > 0
	switch {
	case o.appends || o.replace || bare:
	case len(o.remove) == 0:
		if len(opts.Inputs) == 0 {
			return usage("no sources specified")
		}
		return nil
	case len(opts.Inputs) > 0:
		return usage("--remove with sources: say with --append or --replace what the sources are for")
	}
	if (o.appends || o.replace) && len(opts.Inputs) == 0 {
		return usage("no sources specified")
	}
	opts.Edit = &e
	return nil
}

// selector reads a digest or a platform.
func selector(s string) (index.Selector, error) {
	if d := digest.Digest(s); d.Validate() == nil {
		return index.Selector{Digest: d}, nil
	}
	p, err := oci.ParsePlatform(s)
	if err != nil {
		return index.Selector{}, &exitError{code: ExitUsage, err: err}
	}
	return index.Selector{Platform: p}, nil
}

// label reads --annotate-platform.
func label(s string) (manifold.Label, error) {
	name, fields, ok := strings.Cut(s, ",")
	if !ok {
		return manifold.Label{}, usage("--annotate-platform %q: want PLATFORM|DIGEST,FIELD=VALUE", s)
	}
	which, err := selector(name)
	if err != nil {
		return manifold.Label{}, err
	}
	set := map[string]string{}
	for field := range strings.SplitSeq(fields, ",") {
		key, value, ok := strings.Cut(field, "=")
		if !ok || !isField(key) {
			return manifold.Label{}, usage("--annotate-platform %q: %q is not os, architecture, variant, os.version or os.features with a value", s, field)
		}
		set[key] = value
	}
	return manifold.Label{Of: which, Change: func(p oci.Platform) oci.Platform { return relabel(p, set) }}, nil
}

func isField(key string) bool {
	switch key {
	case "os", "architecture", "arch", "variant", "os.version", "os.features":
		return true
	}
	return false
}

func relabel(p oci.Platform, set map[string]string) oci.Platform {
	for key, value := range set {
		switch key {
		case "os":
			p.OS = value
		case "architecture", "arch":
			p.Architecture = value
		case "variant":
			p.Variant = value
		case "os.version":
			p.OSVersion = value
		case "os.features":
			p.OSFeatures = nil
			if value != "" {
				p.OSFeatures = strings.Split(value, "+")
			}
		}
	}
	return p
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
