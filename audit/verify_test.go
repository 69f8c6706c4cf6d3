package audit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/manifold-oci/manifold/audit"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/report"
	"github.com/opencontainers/go-digest"
)

type names = map[digest.Digest]string

// A whole index has no findings, and nothing is asked twice.
func TestAWholeIndexIsAskedForOnceAndHasNoFindings(t *testing.T) {
	m := newMemory()
	a, b := m.labelled("linux/amd64"), m.labelled("linux/arm64")
	root := m.index(a, b, m.attestation(a.Digest), m.attestation(b.Digest), m.artifact())
	var mu sync.Mutex
	events := map[report.Kind]int{}
	r := verify(t, m, root, audit.Options{
		Platforms: []oci.Platform{*platform("linux/amd64"), *platform("linux/arm64")}, Exact: true, Concurrency: 3,
		Report: func(e report.Event) { mu.Lock(); defer mu.Unlock(); events[e.Kind]++ },
	})
	want(t, r, nil)
	if r.Root.Digest != root.Digest || r.Tree.Digest != root.Digest || r.Findings == nil {
		t.Errorf("result: %+v", r)
	}
	for what, n := range m.asked {
		if n != 1 {
			t.Errorf("%s: %d times", what, n)
		}
	}
	// 5 manifests; 2 configs read; shared layer, 2 layers, 2 statements, 2
	// attestation configs, {} asked for.
	if diff := cmp.Diff(map[report.Kind]int{report.ReadBack: 5, report.Blob: 10}, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if len(m.asked) != 15 {
		t.Errorf("%d requests: %v", len(m.asked), m.asked)
	}
}

// One run lists everything that is wrong.
func TestAllFaultsAreListedInOneRun(t *testing.T) {
	m := newMemory()
	good, gone, holed := m.labelled("linux/amd64"), m.labelled("linux/arm64"), m.labelled("linux/s390x")
	liar := as(m.image("linux/riscv64"), "linux/ppc64le")
	root := m.index(good, gone, holed, liar)
	delete(m.manifests, gone.Digest)
	parts := m.manifestOf(holed)
	delete(m.blobs, parts.Config.Digest)
	delete(m.blobs, parts.Layers[1].Digest)
	r := verify(t, m, root, audit.Options{Platforms: []oci.Platform{*platform("linux/386"), *platform("linux/amd64")}})
	want(t, r, names{gone.Digest: "gone", holed.Digest: "holed", liar.Digest: "liar", parts.Config.Digest: "config", parts.Layers[1].Digest: "layer"},
		"fault child-missing linux/arm64 gone",
		"fault blob-missing linux/s390x config",
		"fault blob-missing linux/s390x layer",
		"fault platform-mismatch linux/ppc64le liar",
		"fault platform-absent linux/386",
	)
	for _, f := range r.Findings {
		if f.Code == audit.BlobMissing {
			if diff := cmp.Diff([]digest.Digest{root.Digest, holed.Digest}, f.Path); diff != "" {
				t.Errorf("path of %s (-want +got):\n%s", f, diff)
			}
		}
		if f.Code == audit.PlatformAbsent && !strings.Contains(f.Text, "linux/amd64, linux/arm64, linux/s390x, linux/ppc64le") {
			t.Errorf("does not say what there is: %s", f)
		}
	}
	if n := len(r.Faults()); n != 5 {
		t.Errorf("%d faults", n)
	}
}

// A blob that two platforms share breaks both.
func TestAMissingSharedLayerIsReportedForEachPlatform(t *testing.T) {
	m := newMemory()
	a, b := m.labelled("linux/amd64"), m.labelled("linux/arm64")
	root := m.index(a, b)
	shared := m.manifestOf(a).Layers[0].Digest
	delete(m.blobs, shared)
	want(t, verify(t, m, root, audit.Options{}), names{shared: "shared"},
		"fault blob-missing linux/amd64 shared", "fault blob-missing linux/arm64 shared")
	if n := m.asked["stat "+string(shared)]; n != 1 {
		t.Errorf("asked for it %d times", n)
	}
}

func TestContentThatIsNotWhatItsDescriptorSays(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	docker := a
	docker.MediaType = oci.MediaTypeDockerManifest
	short := a
	short.Size--
	other := a
	other.Data = m.manifests[m.image("linux/arm64").Digest].Bytes
	same := a
	same.Data = m.manifests[a.Digest].Bytes
	n := names{a.Digest: "a"}
	for _, c := range []struct {
		name  string
		entry oci.Descriptor
		lines []string
	}{
		{"media type", docker, []string{"fault media-type-mismatch linux/amd64 a"}},
		{"size", short, []string{"fault size-mismatch linux/amd64 a"}},
		{"data of other content", other, []string{"fault data-mismatch linux/amd64 a"}},
		{"data that is right", same, nil},
	} {
		t.Run(c.name, func(t *testing.T) { want(t, verify(t, m, m.index(c.entry), audit.Options{}), n, c.lines...) })
	}
	t.Run("served as another type", func(t *testing.T) {
		b := m.manifests[a.Digest]
		m.manifests[a.Digest] = oci.NewBlob(oci.MediaTypeDockerManifest, b.Bytes)
		want(t, verify(t, m, m.index(a), audit.Options{}), n, "fault media-type-mismatch linux/amd64 a")
	})
	t.Run("rotten manifest", func(t *testing.T) {
		rotten := oci.NewBlob(oci.MediaTypeManifest, []byte(strings.Repeat(" ", int(a.Size))))
		m.manifests[a.Digest] = rotten
		want(t, verify(t, m, m.index(a), audit.Options{}), n, "fault digest-mismatch linux/amd64 a")
	})
	t.Run("the place says so itself", func(t *testing.T) {
		for what, code := range map[string]string{"digest": "digest-mismatch", "size": "size-mismatch", "media type": "media-type-mismatch"} {
			m.fail[a.Digest] = fmt.Errorf("r.example/a: %w", &oci.MismatchError{What: what, Want: "1", Got: "2"})
			want(t, verify(t, m, m.index(a), audit.Options{}), n, "fault "+code+" linux/amd64 a")
		}
	})
}

func TestBlobsThatAreNotWhatTheyShouldBe(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	parts := m.manifestOf(a)
	n := names{parts.Config.Digest: "config", parts.Layers[1].Digest: "layer"}
	whole := m.blobs[parts.Config.Digest]
	m.blobs[parts.Layers[1].Digest] = []byte("cut")
	for name, c := range map[string]struct {
		config []byte
		line   string
	}{
		"rotten config": {[]byte(strings.Replace(string(whole), "amd64", "arm64", 1)), "fault digest-mismatch linux/amd64 config"},
		"cut config":    {whole[:5], "fault size-mismatch linux/amd64 config"},
	} {
		m.blobs[parts.Config.Digest] = c.config
		t.Run(name, func(t *testing.T) {
			want(t, verify(t, m, m.index(a), audit.Options{}), n, c.line, "fault size-mismatch linux/amd64 layer")
		})
	}
}

func TestManifestsThatNobodyShouldRead(t *testing.T) {
	m := newMemory()
	for name, body := range map[string]string{
		"duplicate key": `{"schemaVersion":2,"config":{},"config":{}}`,
		"case variant":  `{"schemaVersion":2,"Manifests":[]}`,
		"schema 1":      `{"schemaVersion":1,"fsLayers":[]}`,
		"no JSON":       `<html>`,
		"another thing": `{"schemaVersion":2,"mediaType":"x/y","config":{"mediaType":"a","digest":"` + string(digest.FromString("")) + `","size":1}}`,
	} {
		d := as(m.body(oci.MediaTypeManifest, []byte(body)), "linux/amd64")
		r := verify(t, m, m.index(d), audit.Options{})
		if len(r.Faults()) == 0 || r.Faults()[len(r.Faults())-1].Code != audit.Syntax {
			t.Errorf("%s: %v", name, r.Findings)
		}
	}
	root := oci.NewBlob(oci.MediaTypeIndex, []byte(`{"schemaVersion":2,"manifests":[],"manifests":[]}`))
	want(t, verify(t, m, root, audit.Options{}), names{root.Digest: "root"}, "fault syntax root")
}

// A place that cannot be asked proves nothing, and ends the audit.
func TestCouldNotAskIsNeverAFinding(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	root := m.index(a)
	parts := m.manifestOf(a)
	for name, d := range map[string]digest.Digest{"manifest": a.Digest, "config": parts.Config.Digest, "layer": parts.Layers[0].Digest} {
		m.fail = map[digest.Digest]error{d: errBusy}
		_, err := audit.Verify(t.Context(), m, root, audit.Options{Absent: absent})
		var e *audit.Error
		if !errors.As(err, &e) || e.Digest != d || !errors.Is(err, errBusy) {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.fail = map[digest.Digest]error{a.Digest: errAbsent}
	if _, err := audit.Verify(t.Context(), m, root, audit.Options{}); !errors.Is(err, errAbsent) {
		t.Errorf("without Absent, nothing is known to be missing: %v", err)
	}
	m.fail = nil
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := audit.Verify(ctx, ended{m}, root, audit.Options{Absent: absent}); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// ended gives the context's error.
type ended struct{ *memory }

func (ended) FetchManifest(ctx context.Context, _ oci.Descriptor) (oci.Blob, error) {
	return oci.Blob{}, ctx.Err()
}

// A label and a config contradict each other only where both
// say something.
func TestLabelAndConfig(t *testing.T) {
	for _, c := range []struct {
		label, config string
		mismatch      bool
	}{
		{"linux/arm64", "linux/arm64/v8", false},
		{"linux/arm64/v8", "linux/arm64", false},
		{"linux/arm/v7", "linux/arm", false},
		{"linux/arm/v6", "linux/arm", false},
		{"linux/arm/v6", "linux/arm/v7", true},
		{"linux/amd64", "linux/arm64", true},
		{"linux/amd64", "windows/amd64", true},
		{"windows/amd64", "windows(10.0.17763.1)/amd64", false},
		{"windows(10.0.17763.1)/amd64", "windows(10.0.17763.1)/amd64", false},
		{"windows(10.0.20348.1)/amd64", "windows(10.0.17763.1)/amd64", true},
		{"wasi/wasm32", "wasi/wasm32", false},
		{"linux/wasm", "wasip1/wasm", true},
		{"plan9x/foo", "plan9x/foo", false},
	} {
		m := newMemory()
		r := verify(t, m, m.index(as(m.image(c.config), c.label)), audit.Options{Platforms: []oci.Platform{*platform(c.label)}, Exact: true})
		if got := len(r.Faults()) > 0; got != c.mismatch || got && r.Faults()[0].Code != audit.PlatformMismatch {
			t.Errorf("labelled %s, config %s: %v", c.label, c.config, r.Findings)
		}
	}
}

// Without a label the config says the platform.
func TestPlatformsComeFromTheConfigWhereTheDescriptorHasNone(t *testing.T) {
	m := newMemory()
	root := m.index(m.image("linux/amd64"), m.image("linux/arm64/v8"))
	want(t, verify(t, m, root, audit.Options{Platforms: []oci.Platform{*platform("linux/arm64"), *platform("linux/amd64")}, Exact: true}), nil)
	bare := m.image("/")
	want(t, verify(t, m, m.index(bare), audit.Options{}), names{bare.Digest: "bare"}, "fault platform-missing bare")
}

func TestPlatformsThatMustBeThereAndNoOthers(t *testing.T) {
	m := newMemory()
	amd, v6 := m.labelled("linux/amd64"), m.labelled("linux/arm/v6")
	att := m.attestation(amd.Digest)
	root := m.index(amd, v6, att)
	n := names{v6.Digest: "v6"}
	ask := func(exact bool, p ...string) audit.Options {
		o := audit.Options{Exact: exact}
		for _, s := range p {
			o.Platforms = append(o.Platforms, *platform(s))
		}
		return o
	}
	want(t, verify(t, m, root, ask(false, "linux/amd64")), n)
	want(t, verify(t, m, root, ask(true, "linux/amd64", "linux/arm/v6")), n)
	want(t, verify(t, m, root, ask(true, "linux/amd64")), n, "fault platform-unexpected linux/arm/v6 v6")
	want(t, verify(t, m, root, ask(false, "linux/arm")), n, "fault platform-absent linux/arm")
}

// Attestations are no platforms.
func TestAttestationsAreNotCountedAsPlatforms(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	root := m.index(a, m.attestation(a.Digest))
	want(t, verify(t, m, root, audit.Options{Platforms: []oci.Platform{*platform("linux/amd64")}, Exact: true}), nil)
}

func TestAttestationsMustSpeakOfAnImageThatIsHere(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	stray := m.attestation(digest.FromString("rewritten on the way"))
	mute := m.attestation("x")
	mute.Annotations = map[string]string{oci.AnnotationReferenceType: oci.ReferenceTypeAttestation}
	bare := m.attestation("y")
	bare.Annotations = nil
	want(t, verify(t, m, m.index(a, stray, mute, bare), audit.Options{}), names{stray.Digest: "stray", mute.Digest: "mute", bare.Digest: "bare"},
		"fault attestation-unbound stray", "fault attestation-unbound mute", "fault attestation-unbound bare")
}

// The blobs of attestations and artifacts are part of the whole.
func TestAttestationsAndArtifactsMustBeWhole(t *testing.T) {
	m := newMemory()
	a := m.labelled("linux/amd64")
	att, art := m.attestation(a.Digest), m.artifact()
	root := m.index(a, att, art)
	statement := m.manifestOf(att).Layers[0].Digest
	empty := m.manifestOf(art).Config.Digest
	delete(m.blobs, statement)
	delete(m.blobs, empty)
	want(t, verify(t, m, root, audit.Options{}), names{statement: "statement", empty: "empty"},
		"fault blob-missing statement", "fault blob-missing empty")
}

func TestDuplicatePlatforms(t *testing.T) {
	m := newMemory()
	a, v8 := m.labelled("linux/arm64"), m.labelled("linux/arm64/v8")
	n := names{v8.Digest: "v8"}
	want(t, verify(t, m, m.index(a, v8), audit.Options{}), n, "fault duplicate-platform linux/arm64/v8 v8")
	want(t, verify(t, m, m.index(a, a), audit.Options{}), n)
	old, now := m.labelled("windows(10.0.17763.1)/amd64"), m.labelled("windows(10.0.20348.1)/amd64")
	want(t, verify(t, m, m.index(old, now), audit.Options{}), n)
	// A runtime sees labels only: without os.version these two are one.
	old.Platform.OSVersion, now.Platform.OSVersion = "", ""
	want(t, verify(t, m, m.index(old, now), audit.Options{}), names{now.Digest: "now"}, "fault duplicate-platform windows/amd64 now")
}

func TestShapesOfTheRoot(t *testing.T) {
	m := newMemory()
	a := m.image("linux/amd64")
	alone := m.manifests[a.Digest]
	n := names{a.Digest: "a"}
	two := []oci.Platform{*platform("linux/amd64"), *platform("linux/arm64")}
	want(t, verify(t, m, alone, audit.Options{}), n, "fault not-an-index linux/amd64 a")
	want(t, verify(t, m, alone, audit.Options{Platforms: two[:1], Exact: true}), n, "note not-an-index linux/amd64 a")
	want(t, verify(t, m, alone, audit.Options{Platforms: two[1:]}), n, "note not-an-index linux/amd64 a", "fault platform-absent linux/arm64")
	want(t, verify(t, m, alone, audit.Options{Platforms: two}), n, "fault not-an-index linux/amd64 a", "fault platform-absent linux/arm64")
	empty := m.index()
	want(t, verify(t, m, empty, audit.Options{}), names{empty.Digest: "empty"}, "fault empty-index empty")
	cache := m.artifact()
	n[cache.Digest] = "cache"
	want(t, verify(t, m, m.manifests[cache.Digest], audit.Options{}), n, "fault not-an-index cache")
	want(t, verify(t, m, m.manifests[cache.Digest], audit.Options{Platforms: two[:1]}), n,
		"fault not-an-index cache", "fault platform-absent linux/amd64")
	stray := m.index(m.artifact())
	want(t, verify(t, m, stray, audit.Options{}), names{stray.Digest: "stray"}, "fault empty-index stray")
}

// A list of Docker's that holds OCI children works, but not with every registry.
func TestADockerListWithOCIChildrenIsNoted(t *testing.T) {
	m := newMemory()
	root := m.indexOf(oci.MediaTypeDockerList, m.labelled("linux/amd64"))
	r := verify(t, m, root, audit.Options{})
	want(t, r, names{root.Digest: "root"}, "note mixed-types root")
	if len(r.Faults()) != 0 {
		t.Error("a note is counted as a fault")
	}
}

func TestNestedIndexesAreReportedAndChecked(t *testing.T) {
	m := newMemory()
	a, b := m.labelled("linux/amd64"), m.labelled("linux/arm64")
	inner := m.index(b, m.attestation(a.Digest))
	root := m.index(a, as(inner.Descriptor, "linux/arm64"), inner.Descriptor)
	layer := m.manifestOf(b).Layers[1].Digest
	delete(m.blobs, layer)
	r := verify(t, m, root, audit.Options{Platforms: []oci.Platform{*platform("linux/arm64")}})
	want(t, r, names{inner.Digest: "inner", layer: "layer"},
		"fault nested-index linux/arm64 inner", "fault nested-index inner", "fault blob-missing linux/arm64 layer")
}

func TestAChainOfIndexesEnds(t *testing.T) {
	m := newMemory()
	top := m.index(m.labelled("linux/amd64"))
	for range 50 {
		top = m.index(top.Descriptor)
	}
	r := verify(t, m, top, audit.Options{})
	last := r.Findings[len(r.Findings)-1]
	if last.Code != audit.NestedIndex || !strings.Contains(last.Text, "deeper than 8") {
		t.Errorf("last finding: %v", last)
	}
	if len(m.asked) > oci.MaxDepth+1 {
		t.Errorf("%d requests", len(m.asked))
	}
}

// Cache layers of BuildKit are blobs in an index.
func TestEntriesThatAreNoManifestsAreAskedForAsBlobs(t *testing.T) {
	m := newMemory()
	here := m.blob("application/vnd.oci.image.layer.v1.tar+gzip", []byte("layer"))
	gone := oci.NewBlob("application/vnd.buildkit.cacheconfig.v0", []byte("gone")).Descriptor
	want(t, verify(t, m, m.index(m.labelled("linux/amd64"), here, gone), audit.Options{}), names{gone.Digest: "gone"}, "fault blob-missing gone")
}

// Layers that come from their URLs need not be in the registry.
func TestForeignLayersMayBeAbsent(t *testing.T) {
	m := newMemory()
	foreign := oci.NewBlob("application/vnd.docker.image.rootfs.foreign.diff.tar.gzip", []byte("windows")).Descriptor
	foreign.URLs = []string{"https://a.example/x"}
	d := m.manifest(oci.MediaTypeManifest, object{
		"schemaVersion": 2, "mediaType": oci.MediaTypeManifest, "layers": []any{foreign},
		"config": m.blob(oci.MediaTypeConfig, []byte(`{"os":"windows","architecture":"amd64"}`)),
	})
	want(t, verify(t, m, m.index(d), audit.Options{}), nil)
}

// The order of findings does not depend on which answer comes first.
func TestFindingsAreInTheOrderOfTheTree(t *testing.T) {
	m := newMemory()
	var entries []oci.Descriptor
	for i := range 20 {
		d := m.labelled(fmt.Sprintf("linux/a%d", i))
		entries = append(entries, d)
		delete(m.manifests, d.Digest)
	}
	for _, c := range []int{1, 7} {
		r := verify(t, m, m.index(entries...), audit.Options{Concurrency: c})
		if len(r.Findings) != len(entries) {
			t.Fatalf("%d findings", len(r.Findings))
		}
		for i, f := range r.Findings {
			if f.Digest != entries[i].Digest {
				t.Errorf("finding %d is about %s", i, f.Platform)
			}
		}
	}
}

// limited counts how many requests are under way.
type limited struct {
	*memory
	gate chan struct{}
}

func (l *limited) StatBlob(ctx context.Context, d oci.Descriptor) (bool, error) {
	select {
	case l.gate <- struct{}{}:
		defer func() { <-l.gate }()
	default:
		return false, errors.New("more requests than allowed")
	}
	return l.memory.StatBlob(ctx, d)
}

func TestRequestsUnderWayAreBounded(t *testing.T) {
	m := newMemory()
	var entries []oci.Descriptor
	for i := range 30 {
		entries = append(entries, m.labelled(fmt.Sprintf("linux/a%d", i)))
	}
	l := &limited{memory: m, gate: make(chan struct{}, 3)}
	if _, err := audit.Verify(t.Context(), l, m.index(entries...), audit.Options{Absent: absent, Concurrency: 3}); err != nil {
		t.Error(err)
	}
}
