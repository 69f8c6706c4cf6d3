package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/dockermanifest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"
)

const manifestLong = `"docker manifest", argument for argument: make a list of images locally, annotate
it, push it. Lists are those of Docker's CLI, in $DOCKER_CONFIG/manifests, and
either tool can go on where the other has stopped.

Children keep their bytes, sources may be in other registries and may be indexes
with attestations, --amend takes what a tag names now, and the tag moves last,
onto a list that was read back whole. docs/docker-manifest.md lists every
difference.`

func newManifest(h Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "manifest COMMAND",
		Short: "Docker's manifest commands, without their faults",
		Long:  manifestLong,
		Args:  dockerNoArgs(h),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(h.Err, "\n"+cmd.UsageString())
			return err
		},
		DisableFlagsInUseLine: true,
		Annotations:           map[string]string{exitCodes: dockerExitHelp},
	}
	cmd.SetFlagErrorFunc(dockerFlagError(h))
	for _, sub := range []*cobra.Command{
		newManifestAnnotate(h), newManifestCreate(h), newManifestInspect(h), newManifestPush(h), newManifestRm(h),
	} {
		sub.Long = longer(sub) + "\n" + dockerExitHelp
		sub.DisableFlagsInUseLine = true
		sub.RunE = dockerErrors(h, sub.RunE)
		cmd.AddCommand(sub)
	}
	return cmd
}

func newManifestCreate(h Host) *cobra.Command {
	var amend, insecure bool
	cmd := &cobra.Command{
		Use:   "create MANIFEST_LIST MANIFEST [MANIFEST...]",
		Short: "Create a local manifest list for annotating and pushing to a registry",
		Args:  dockerMinArgs(h, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, done, err := lists(h, insecure, args, nil)
			if err != nil {
				return err
			}
			defer done()
			name, err := l.Create(cmd.Context(), args[0], args[1:], amend)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(h.Out, "Created manifest list", name)
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&insecure, "insecure", false, "Allow communication with an insecure registry")
	f.BoolVarP(&amend, "amend", "a", false, "Amend an existing manifest list")
	return cmd
}

func newManifestAnnotate(h Host) *cobra.Command {
	var a dockermanifest.Annotation
	cmd := &cobra.Command{
		Use:   "annotate [OPTIONS] MANIFEST_LIST MANIFEST",
		Short: "Add additional information to a local image manifest",
		Args:  dockerExactArgs(h, 2),
		RunE: func(_ *cobra.Command, args []string) error {
			l, done, err := lists(h, false, nil, nil)
			if err != nil {
				return err
			}
			defer done()
			return l.Annotate(args[0], args[1], a)
		},
	}
	f := cmd.Flags()
	f.StringVar(&a.OS, "os", "", "Set operating system")
	f.StringVar(&a.Architecture, "arch", "", "Set architecture")
	f.StringVar(&a.OSVersion, "os-version", "", "Set operating system version")
	f.StringSliceVar(&a.OSFeatures, "os-features", nil, "Set operating system feature")
	f.StringVar(&a.Variant, "variant", "", "Set architecture variant")
	f.StringSliceVar(&a.Clear, "clear", nil, "Empty `fields` first: variant, os-version, os-features (not in Docker)")
	return cmd
}

func newManifestInspect(h Host) *cobra.Command {
	var verbose, insecure bool
	cmd := &cobra.Command{
		Use:   "inspect [OPTIONS] [MANIFEST_LIST] MANIFEST",
		Short: "Display an image manifest, or manifest list",
		Args:  dockerRangeArgs(h, 1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			l, done, err := lists(h, insecure, args, nil)
			if err != nil {
				return err
			}
			defer done()
			list, name := "", args[len(args)-1]
			if len(args) == 2 {
				list = args[0]
			}
			text, err := l.Inspect(cmd.Context(), list, name, verbose)
			if err != nil {
				return err
			}
			return rawDocument(h.Out, text)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&insecure, "insecure", false, "Allow communication with an insecure registry")
	f.BoolVarP(&verbose, "verbose", "v", false, "Output additional info including layers and platform")
	return cmd
}

func newManifestPush(h Host) *cobra.Command {
	var purge, insecure, trace bool
	var publishing publishFlags
	cmd := &cobra.Command{
		Use:   "push [OPTIONS] MANIFEST_LIST",
		Short: "Push a manifest list to a repository",
		Args:  dockerExactArgs(h, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := publishing.check(false); err != nil {
				return err
			}
			var seen digestTrace
			l, done, err := lists(h, insecure, args, &seen)
			if err != nil {
				return err
			}
			defer done()
			if r, ok := l.Registries.(registries); ok {
				r.flags = &publishing
				l.Registries = r
			}
			pushed, err := l.Push(cmd.Context(), args[0], purge)
			for _, line := range pushed.Lines {
				if _, err := fmt.Fprintln(h.Out, line); err != nil {
					return err
				}
			}
			if trace && err == nil {
				seen.readRest(cmd.Context(), l.Registries, pushed)
			}
			if trace {
				seen.print(h.Err, pushed)
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&purge, "purge", "p", false, "Remove the local manifest list after push")
	f.BoolVar(&insecure, "insecure", false, "Allow push to an insecure registry")
	f.BoolVar(&trace, "trace", false, "Print the digest of each manifest to stderr: local, answered, read back (not in Docker)")
	publishing.add(f)
	return cmd
}

func newManifestRm(h Host) *cobra.Command {
	return &cobra.Command{
		Use:   "rm MANIFEST_LIST [MANIFEST_LIST...]",
		Short: "Delete one or more manifest lists from local storage",
		Args:  dockerMinArgs(h, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			l, done, err := lists(h, false, nil, nil)
			if err != nil {
				return err
			}
			defer done()
			return l.Remove(args)
		},
	}
}

// lists opens the store of Docker's configuration and the registries. insecure
// is for the hosts of the names given.
func lists(h Host, insecure bool, names []string, t *digestTrace) (*dockermanifest.Lists, func(), error) {
	config := h.dockerConfig()
	if config == "" {
		return nil, nil, errors.New("no place for manifest lists: neither DOCKER_CONFIG nor HOME is set")
	}
	store := dockermanifest.Store{Dir: filepath.Join(filepath.Dir(config), "manifests")}
	var flags registryFlags
	o := flags.options(h)
	sink := warnings(h)
	if t != nil {
		o.OnRequest = t.request
		sink = t.sink(sink)
	}
	if insecure {
		o.TryPlainHTTP = hostsOf(store, names)
		o.Insecure = o.TryPlainHTTP
	}
	library := manifold.Options{Report: sink, Registry: o}
	library.JournalDir, _ = h.journalDir() // without a place, nothing is remembered
	m := manifold.New(library)
	l := &dockermanifest.Lists{Store: store, Registries: registries{m: m}, Report: sink}
	return l, func() { _ = m.Close() }, nil
}

// hostsOf are the hosts that names speak of, those of the entries of a list
// too. A name that is none is reported by the verb.
func hostsOf(store dockermanifest.Store, names []string) []string {
	var hosts []string
	for _, n := range names {
		r, err := ref.Parse(n)
		if err != nil {
			continue
		}
		hosts = append(hosts, r.Host)
		entries, err := store.Entries(r.OrLatest())
		if err != nil {
			continue
		}
		for _, e := range entries {
			hosts = append(hosts, e.Ref.Host)
		}
	}
	slices.Sort(hosts)
	return slices.Compact(hosts)
}

// registries is the library as the lists need it.
type registries struct {
	m *manifold.Manifold
	// flags are those of a push, nil else.
	flags *publishFlags
}

func (r registries) Resolve(ctx context.Context, name ref.Reference) (oci.Blob, error) {
	return r.m.Resolve(ctx, ref.Location{Reference: name})
}

func (r registries) FetchManifest(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	return r.m.FetchManifest(ctx, repo, d)
}

func (r registries) Platform(ctx context.Context, repo ref.Reference, m oci.Manifest) (oci.Platform, error) {
	return r.m.ConfigPlatform(ctx, repo, m)
}

func (r registries) Publish(ctx context.Context, c publish.Content, target ref.Reference) ([]digest.Digest, error) {
	flags := r.flags
	if flags == nil {
		flags = &publishFlags{}
	}
	o, err := flags.publishing([]ref.Reference{target})
	if err != nil {
		return nil, err
	}
	made, err := r.m.PublishContent(ctx, "manifest push", c, []ref.Reference{target}, o)
	err = flags.record(made.Receipt, err)
	var put []digest.Digest
	for _, w := range made.Receipt.Written {
		if slices.Contains(made.Receipt.Removed, w) {
			continue
		}
		if name, err := ref.Parse(w); err == nil {
			put = append(put, name.Digest)
		}
	}
	return put, err
}
