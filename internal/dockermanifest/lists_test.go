package dockermanifest_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/internal/dockermanifest"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

// registries are the rooms below the root package, put together as it does.
type registries struct{ *registry.Client }

func (r registries) Resolve(ctx context.Context, n ref.Reference) (oci.Blob, error) {
	return r.Repository(n).Manifest(ctx, n.Identifier())
}

func (r registries) FetchManifest(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	return r.Repository(repo).FetchManifest(ctx, d)
}

func (r registries) Platform(ctx context.Context, repo ref.Reference, m oci.Manifest) (oci.Platform, error) {
	rc, err := r.Repository(repo).OpenBlob(ctx, m.Config)
	if err != nil {
		return oci.Platform{}, err
	}
	defer rc.Close()
	b, err := io.ReadAll(rc)
	if err != nil {
		return oci.Platform{}, err
	}
	c, err := oci.ParseConfig(b)
	return c.Platform, err
}

func (r registries) Publish(ctx context.Context, c publish.Content, target ref.Reference) ([]digest.Digest, error) {
	p, err := publish.Make(ctx, c, publish.Options{
		Verb: "test", Targets: []ref.Reference{target}, Absent: registry.Absent,
		Open: func(n ref.Reference) publish.Prober { return r.Repository(n) },
	})
	if err != nil {
		return nil, err
	}
	res, err := apply.Run(ctx, p, apply.Options{
		Absent:     registry.Absent,
		Repository: func(n ref.Reference) apply.Repository { return r.Repository(n) },
		Place: func(place string) (apply.BlobOpener, error) {
			n, err := ref.Parse(place)
			return r.Repository(n), err
		},
	})
	var put []digest.Digest
	for _, w := range res.Written {
		put = append(put, w.Digest)
	}
	return put, err
}

func newLists(t *testing.T) (*dockermanifest.Lists, *[]string) {
	var warned []string
	return &dockermanifest.Lists{
		Store:      dockermanifest.Store{Dir: t.TempDir()},
		Registries: registries{registry.NewClient(registry.Options{})},
		Report: func(e report.Event) {
			if e.Kind == report.Warning {
				warned = append(warned, e.Text)
			}
		},
	}, &warned
}

func create(t *testing.T, l *dockermanifest.Lists, list string, sources ...string) {
	t.Helper()
	if _, err := l.Create(t.Context(), list, sources, true); err != nil {
		t.Fatal(err)
	}
}

// The errors that callers tell apart.
func TestVerbsSayWhatIsWrongByType(t *testing.T) {
	r := registrytest.Distribution(t)
	image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{})
	r.Push("src", "a", image)
	r.Push("src", "none", registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{NoPlatform: true}))
	r.Push("src", "chart", registrytest.Index(t, registrytest.IndexOptions{}, registrytest.Artifact(t, registrytest.ArtifactOptions{})))
	r.Push("src", "two", registrytest.Index(t, registrytest.IndexOptions{}, image, registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})))
	l, _ := newLists(t)
	at := func(s string) string { return r.Host + "/" + s }
	create(t, l, at("app:1"), at("src:none"))
	create(t, l, at("app:2"), at("src:two"))
	fails := func(_ any, err error) error { return err }
	for what, c := range map[string]struct {
		err  error
		want any
	}{
		"list exists":      {fails(l.Create(t.Context(), at("app:1"), []string{at("src:a")}, false)), new(*dockermanifest.ExistsError)},
		"source is absent": {fails(l.Create(t.Context(), at("app:3"), []string{at("src:gone")}, false)), new(*dockermanifest.AbsentError)},
		"no image":         {fails(l.Create(t.Context(), at("app:3"), []string{at("src:chart")}, false)), new(*dockermanifest.NoImageError)},
		"no name":          {fails(l.Create(t.Context(), at("app:3"), []string{"A"}, false)), new(*dockermanifest.NameError)},
		"no platform":      {fails(l.Push(t.Context(), at("app:1"), false)), new(*dockermanifest.NoPlatformError)},
		"no list":          {fails(l.Push(t.Context(), at("app:3"), false)), new(*dockermanifest.NotFoundError)},
		"no entry":         {l.Annotate(at("app:1"), at("src:a"), dockermanifest.Annotation{}), new(*dockermanifest.NoEntryError)},
		"many entries":     {l.Annotate(at("app:2"), at("src:two"), dockermanifest.Annotation{}), new(*dockermanifest.AmbiguousError)},
		"half a platform":  {l.Annotate(at("app:1"), at("src:none"), dockermanifest.Annotation{OS: "linux"}), new(*dockermanifest.PlatformError)},
		"unknown field":    {l.Annotate(at("app:1"), at("src:none"), dockermanifest.Annotation{Clear: []string{"os"}}), new(*dockermanifest.ClearError)},
		"removed twice":    {l.Remove([]string{at("app:9")}), new(*dockermanifest.NotFoundError)},
	} {
		if !errors.As(c.err, c.want) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
}

// One field that the user set stays, the rest is that of the image which the
// source names now.
func TestAmendKeepsWhatWasAnnotatedAndNothingElse(t *testing.T) {
	r := registrytest.Distribution(t)
	l, warned := newLists(t)
	list, source := r.Host+"/app:1", r.Host+"/src:a"
	old := registrytest.Image(t, "linux/arm/v7", registrytest.ImageOptions{OSVersion: "1", OSFeatures: []string{"f"}})
	r.Push("src", "a", old)
	create(t, l, list, source)
	if err := l.Annotate(list, source, dockermanifest.Annotation{Variant: "v6", OSFeatures: []string{"g"}}); err != nil {
		t.Fatal(err)
	}
	platform := func() *oci.Platform {
		t.Helper()
		e, err := l.Store.Entry(name(t, list), name(t, source))
		if err != nil {
			t.Fatal(err)
		}
		return e.Descriptor.Platform
	}
	r.Push("src", "a", registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{OSVersion: "2"}))
	create(t, l, list, source)
	want := &oci.Platform{OS: "linux", Architecture: "arm64", Variant: "v6", OSVersion: "2", OSFeatures: []string{"f", "g"}}
	if diff := cmp.Diff(want, platform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}

	// Where the old image has gone, nobody knows what was annotated.
	r.Push("src", "b", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}))
	source = r.Host + "/src:b"
	create(t, l, list, source)
	r.RemoveBlob("src", registrytest.Image(t, "linux/s390x", registrytest.ImageOptions{}).Blobs[0].Digest)
	r.Push("src", "b", registrytest.Image(t, "linux/riscv64", registrytest.ImageOptions{}))
	create(t, l, list, source)
	if diff := cmp.Diff(&oci.Platform{OS: "linux", Architecture: "riscv64"}, platform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "the old one is gone") {
		t.Errorf("warned: %q", *warned)
	}
}

// Over every kind of registry, from another one: what arrives is what was
// stored, under the digests that the list names.
func TestAPushedListNamesChildrenThatAreThere(t *testing.T) {
	registrytest.Each(t, func(t *testing.T, r *registrytest.Registry) {
		from := registrytest.Distribution(t)
		l, _ := newLists(t)
		image := registrytest.Image(t, "linux/amd64", registrytest.ImageOptions{Docker: true, Style: registrytest.Style{Indent: "\t", CRLF: true, Newline: true}})
		other := registrytest.Image(t, "linux/arm64", registrytest.ImageOptions{})
		attested := registrytest.Index(t, registrytest.IndexOptions{}, other, registrytest.Attestation(t, other))
		from.Push("src", "amd64", image)
		from.Push("src", "arm64", attested)
		create(t, l, r.Host+"/app:1", from.Host+"/src:arm64", from.Host+"/src:amd64")
		pushed, err := l.Push(t.Context(), r.Host+"/app:1", true)
		if err != nil {
			t.Fatal(err)
		}
		root, ok := r.Manifest("app", "1")
		if !ok || root.Digest != pushed.Root.Digest {
			t.Fatalf("tag names %s, pushed %s", root.Digest, pushed.Root.Digest)
		}
		idx, err := oci.ParseIndex(root)
		if err != nil {
			t.Fatal(err)
		}
		var got []digest.Digest
		for _, e := range idx.Manifests {
			b, ok := r.Manifest("app", e.Digest.String())
			if !ok || digest.FromBytes(b.Bytes) != e.Digest || b.Size != e.Size {
				t.Errorf("%s is not there as named", e.Digest)
			}
			got = append(got, e.Digest)
		}
		// Docker's order is that of the names: amd64 before arm64.
		want := []digest.Digest{image.Digest(), other.Digest(), attested.Children[1].Digest()}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("children (-want +got):\n%s", diff)
		}
		if len(pushed.Lines) != 4 || pushed.Lines[3] != root.Digest.String() {
			t.Errorf("lines: %q", pushed.Lines)
		}
		var none *dockermanifest.NotFoundError
		if _, err := l.Store.Entries(name(t, r.Host+"/app:1")); !errors.As(err, &none) {
			t.Errorf("not purged: %v", err)
		}
	})
}
