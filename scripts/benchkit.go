//go:build ignore

// Benchkit is what the measuring scripts need besides the tools that they
// compare:
//
//	benchkit images DIR    writes an OCI layout with the tag "8x6", an index of
//	                       eight images of six layers, two of which they share
//	                       (42 blobs, 9 manifests), and the tag "big", one image
//	                       of two layers of 600 MB each
//	benchkit proxy URL MS  serves on loopback, prints its address, delays every
//	                       request by so many milliseconds and counts: GET /-/count
//	                       answers "requests bytes-of-blobs-sent" and begins anew
//	benchkit run COMMAND   runs a command with its output on stderr and prints
//	                       "milliseconds resident-megabytes"
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

func main() {
	err := errors.New("usage: benchkit images DIR | benchkit proxy URL MILLISECONDS | benchkit run COMMAND...")
	switch {
	case len(os.Args) == 3 && os.Args[1] == "images":
		err = images(context.Background(), os.Args[2])
	case len(os.Args) == 4 && os.Args[1] == "proxy":
		err = proxy(os.Args[2], os.Args[3])
	case len(os.Args) > 2 && os.Args[1] == "run":
		err = run(os.Args[2:])
	}
	if err != nil {
		log.Fatal(err)
	}
}

// noise is a blob of n bytes that do not compress, the same for the same seed.
type noise struct {
	seed string
	n    int64
}

func (b noise) open(context.Context) (io.ReadCloser, error) {
	return io.NopCloser(io.LimitReader(rand.NewChaCha8(sha256.Sum256([]byte(b.seed))), b.n)), nil
}

func (b noise) write(ctx context.Context, w *layout.Writer, mediaType string) (oci.Descriptor, error) {
	r, _ := b.open(ctx)
	d, err := digest.FromReader(r)
	if err != nil {
		return oci.Descriptor{}, err
	}
	desc := oci.Descriptor{MediaType: mediaType, Digest: d, Size: b.n}
	_, err = w.WriteBlob(ctx, desc, b.open)
	return desc, err
}

func images(ctx context.Context, dir string) error {
	w, err := layout.Create(dir)
	if err != nil {
		return err
	}
	defer w.Close()
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeIndex}
	for _, name := range strings.Fields("amd64 arm64 arm/v7 arm/v6 386 ppc64le s390x riscv64") {
		arch, variant, _ := strings.Cut(name, "/")
		p := oci.Platform{OS: "linux", Architecture: arch, Variant: variant}
		var layers []noise
		for i := range 6 {
			seed := name
			if i < 2 {
				seed = "shared"
			}
			layers = append(layers, noise{seed: fmt.Sprint(seed, i), n: 2000})
		}
		d, err := image(ctx, w, p, layers, "")
		if err != nil {
			return err
		}
		d.Platform = &p
		index.Manifests = append(index.Manifests, d)
	}
	b, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := w.PutTag(ctx, "8x6", oci.NewBlob(oci.MediaTypeIndex, b)); err != nil {
		return err
	}
	_, err = image(ctx, w, oci.Platform{OS: "linux", Architecture: "amd64"}, []noise{{"one", 600e6}, {"two", 600e6}}, "big")
	return err
}

func image(ctx context.Context, w *layout.Writer, p oci.Platform, layers []noise, tag string) (oci.Descriptor, error) {
	m := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeManifest}
	c := ocispec.Image{Platform: p, RootFS: ocispec.RootFS{Type: "layers"}}
	for _, l := range layers {
		d, err := l.write(ctx, w, ocispec.MediaTypeImageLayer)
		if err != nil {
			return d, err
		}
		m.Layers = append(m.Layers, d)
		c.RootFS.DiffIDs = append(c.RootFS.DiffIDs, d.Digest)
	}
	config, err := put(ctx, w, oci.MediaTypeConfig, c)
	if err != nil {
		return config.Descriptor, err
	}
	m.Config = config.Descriptor
	root, err := put(ctx, w, oci.MediaTypeManifest, m)
	if err == nil && tag != "" {
		err = w.PutTag(ctx, tag, root)
	}
	return root.Descriptor, err
}

func put(ctx context.Context, w *layout.Writer, mediaType string, v any) (oci.Blob, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return oci.Blob{}, err
	}
	blob := oci.NewBlob(mediaType, b)
	_, err = w.WriteBlob(ctx, blob.Descriptor, func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
	return blob, err
}

func run(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	started := time.Now()
	if err := cmd.Run(); err != nil {
		return err
	}
	took := time.Since(started)
	var rss int64
	if u, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		rss = u.Maxrss
	}
	fmt.Println(took.Milliseconds(), rss/1024)
	return nil
}

// counted is a body of which the bytes are counted.
type counted struct {
	io.ReadCloser
	n *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func proxy(target, delay string) error {
	to, err := url.Parse(target)
	if err != nil {
		return err
	}
	ms, err := strconv.Atoi(delay)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var requests, sent atomic.Int64
	rp := &httputil.ReverseProxy{
		Transport: &http.Transport{MaxIdleConnsPerHost: 100},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // so that Locations lead here
		},
	}
	fmt.Println(l.Addr())
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/-/count" {
			fmt.Fprintln(w, requests.Swap(0), sent.Swap(0))
			return
		}
		requests.Add(1)
		if r.Body != nil && strings.Contains(r.URL.Path, "/blobs/") {
			r.Body = counted{r.Body, &sent}
		}
		time.Sleep(time.Duration(ms) * time.Millisecond)
		rp.ServeHTTP(w, r)
	}))
}
