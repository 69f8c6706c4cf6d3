package audit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"
	"testing"

	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/opencontainers/go-digest"
)

var (
	errAbsent = errors.New("manifest unknown")
	errBusy   = errors.New("429 too many requests")
)

func absent(err error) bool { return errors.Is(err, errAbsent) }

// memory is content that counts what it is asked for.
type memory struct {
	manifests map[digest.Digest]oci.Blob
	blobs     map[digest.Digest][]byte
	// fail answers requests for a digest.
	fail map[digest.Digest]error

	mu    sync.Mutex
	asked map[string]int // "fetch|open|stat DIGEST"
}

func newMemory() *memory {
	return &memory{manifests: map[digest.Digest]oci.Blob{}, blobs: map[digest.Digest][]byte{}, fail: map[digest.Digest]error{}, asked: map[string]int{}}
}

func (m *memory) ask(verb string, d oci.Descriptor) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked[verb+" "+string(d.Digest)]++
	return m.fail[d.Digest]
}

func (m *memory) FetchManifest(_ context.Context, d oci.Descriptor) (oci.Blob, error) {
	if err := m.ask("fetch", d); err != nil {
		return oci.Blob{}, err
	}
	b, ok := m.manifests[d.Digest]
	if !ok {
		return oci.Blob{}, errAbsent
	}
	return b, nil
}

func (m *memory) OpenBlob(_ context.Context, d oci.Descriptor) (io.ReadCloser, error) {
	if err := m.ask("open", d); err != nil {
		return nil, err
	}
	b, ok := m.blobs[d.Digest]
	if !ok {
		return nil, errAbsent
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

func (m *memory) StatBlob(_ context.Context, d oci.Descriptor) (bool, error) {
	if err := m.ask("stat", d); err != nil {
		return false, err
	}
	b, ok := m.blobs[d.Digest]
	if ok && int64(len(b)) != d.Size {
		return true, &oci.MismatchError{What: "size", Want: fmt.Sprint(d.Size), Got: fmt.Sprint(len(b))}
	}
	return ok, nil
}

func (m *memory) blob(mediaType string, b []byte) oci.Descriptor {
	d := oci.NewBlob(mediaType, b).Descriptor
	m.blobs[d.Digest] = b
	return d
}

func (m *memory) manifest(mediaType string, v any) oci.Descriptor {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return m.body(mediaType, b)
}

func (m *memory) body(mediaType string, b []byte) oci.Descriptor {
	blob := oci.NewBlob(mediaType, b)
	m.manifests[blob.Digest] = blob
	return blob.Descriptor
}

type object = map[string]any

// platform reads os/arch[/variant] without changing it.
func platform(s string) *oci.Platform {
	parts := append(strings.Split(s, "/"), "")
	p := &oci.Platform{Architecture: parts[1], Variant: parts[2]}
	p.OS, p.OSVersion, _ = strings.Cut(strings.TrimSuffix(parts[0], ")"), "(")
	return p
}

// image adds an image whose config says p, with a layer that all images share
// and one of its own. Its descriptor has no platform.
func (m *memory) image(p string) oci.Descriptor {
	says := platform(p)
	config := object{"architecture": says.Architecture, "os": says.OS, "variant": says.Variant, "os.version": says.OSVersion}
	b, err := json.Marshal(config)
	if err != nil {
		panic(err)
	}
	return m.manifest(oci.MediaTypeManifest, object{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "config": m.blob(oci.MediaTypeConfig, b),
		"layers": []any{m.blob("l", []byte("shared")), m.blob("l", []byte("of "+p))},
	})
}

// labelled is an image whose descriptor says what its config says.
func (m *memory) labelled(p string) oci.Descriptor { return as(m.image(p), p) }

func as(d oci.Descriptor, p string) oci.Descriptor {
	d.Platform = platform(p)
	return d
}

func (m *memory) attestation(of digest.Digest) oci.Descriptor {
	statement := m.blob("application/vnd.in-toto+json", []byte(`{"of":"`+string(of)+`"}`))
	statement.Annotations = map[string]string{"in-toto.io/predicate-type": "https://slsa.dev/provenance/v1"}
	d := m.manifest(oci.MediaTypeManifest, object{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "layers": []any{statement},
		"config": m.blob(oci.MediaTypeConfig, []byte(`{"architecture":"unknown","os":"unknown","n":"`+string(of)+`"}`)),
	})
	d = as(d, "unknown/unknown")
	d.Annotations = map[string]string{oci.AnnotationReferenceType: oci.ReferenceTypeAttestation, oci.AnnotationReferenceDigest: string(of)}
	return d
}

func (m *memory) artifact() oci.Descriptor {
	empty := m.blob("application/vnd.oci.empty.v1+json", []byte("{}"))
	empty.Data = []byte("{}")
	return m.manifest(oci.MediaTypeManifest, object{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "artifactType": "application/x.test", "config": empty, "layers": []any{empty},
	})
}

func (m *memory) index(entries ...oci.Descriptor) oci.Blob {
	return m.indexOf(oci.MediaTypeIndex, entries...)
}

func (m *memory) indexOf(mediaType string, entries ...oci.Descriptor) oci.Blob {
	if entries == nil {
		entries = []oci.Descriptor{}
	}
	d := m.manifest(mediaType, object{"schemaVersion": 2, "mediaType": mediaType, "manifests": entries})
	return m.manifests[d.Digest]
}

// configOf and layersOf read back what an image is made of.
func (m *memory) manifestOf(d oci.Descriptor) oci.Manifest {
	v, err := oci.ParseManifest(m.manifests[d.Digest])
	if err != nil {
		panic(err)
	}
	return v
}

func verify(t *testing.T, m *memory, root oci.Blob, o audit.Options) audit.Result {
	t.Helper()
	o.Absent = absent
	r, err := audit.Verify(t.Context(), m, root, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// brief writes findings as "severity code platform digest", sorted, with the
// digests named by names.
func brief(findings []audit.Finding, names map[digest.Digest]string) []string {
	out := []string{}
	for _, f := range findings {
		name := names[f.Digest]
		if name == "" && f.Digest != "" {
			name = string(f.Digest)
		}
		out = append(out, strings.Join(strings.Fields(fmt.Sprint(f.Severity, " ", f.Code, " ", f.Platform, " ", name)), " "))
	}
	sort.Strings(out)
	return out
}

func want(t *testing.T, got audit.Result, names map[digest.Digest]string, lines ...string) {
	t.Helper()
	sort.Strings(lines)
	text := brief(got.Findings, names)
	if strings.Join(text, "\n") != strings.Join(lines, "\n") {
		t.Errorf("findings are\n  %s\nwant\n  %s", strings.Join(text, "\n  "), strings.Join(lines, "\n  "))
	}
}
