package manifold_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"strings"

	server "github.com/google/go-containerregistry/pkg/registry"
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// Two images that two machines have pushed become one index under two tags.
func ExampleManifold_Create() {
	s := httptest.NewServer(server.New(server.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	app := ref.Reference{Host: strings.TrimPrefix(s.URL, "http://"), Repository: "team/app"}
	pushImage(app.WithTag("amd64"), "amd64")
	pushImage(app.WithTag("arm64"), "arm64")

	m := manifold.New(manifold.Options{})
	made, err := m.Create(context.Background(), manifold.CreateOptions{
		Sources: []ref.Location{{Reference: app.WithTag("amd64")}, {Reference: app.WithTag("arm64")}},
		Targets: []ref.Reference{app.WithTag("1.0"), app.WithTag("latest")},
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range made.Receipt.Platforms {
		fmt.Println(p.Platform)
	}
	for _, t := range made.Receipt.Tags {
		fmt.Println(strings.TrimPrefix(t.Reference, app.Host), t.Fate)
	}

	checked, err := m.Verify(context.Background(), ref.Location{Reference: app.WithTag("latest")}, manifold.VerifyOptions{
		Platforms: []oci.Platform{{OS: "linux", Architecture: "arm64"}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(checked.Faults()), "faults")
	// Output:
	// linux/amd64
	// linux/arm64
	// /team/app:1.0 moved
	// /team/app:latest moved
	// 0 faults
}

// pushImage pushes a minimal image.
func pushImage(name ref.Reference, arch string) {
	ctx := context.Background()
	repo := registry.NewClient(registry.Options{}).Repository(name)
	config := fmt.Sprintf(`{"os":"linux","architecture":%q,"rootfs":{"type":"layers","diff_ids":[]}}`, arch)
	d := oci.Descriptor{MediaType: oci.MediaTypeConfig, Digest: digest.FromString(config), Size: int64(len(config))}
	_, err := repo.CopyBlob(ctx, d, nil, func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(config)), nil
	})
	if err != nil {
		log.Fatal(err)
	}
	err = repo.PutTag(ctx, name.Tag, oci.NewBlob(oci.MediaTypeManifest, fmt.Appendf(nil,
		`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		oci.MediaTypeManifest, d.MediaType, d.Digest, d.Size)))
	if err != nil {
		log.Fatal(err)
	}
}
