package manifold

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/manifold-oci/manifold/index"
	"github.com/manifold-oci/manifold/internal/clock"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/publish"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
)

// Options are what all verbs share. The zero value works: anonymous, silent,
// with the defaults of each room.
type Options struct {
	// Registry says how registries are spoken to.
	Registry registry.Options
	// Lag bounds how long acknowledged content may stay invisible; 30 s when
	// zero.
	Lag time.Duration
	// Engine is the Docker Engine that docker-daemon:NAME is read from.
	Engine layout.Engine
	// JournalDir is where publishes that are under way are remembered, so that
	// one that was interrupted can be taken up; empty remembers nothing.
	JournalDir string
	// Report receives what happens.
	Report report.Sink
}

// Manifold is the way in. It is safe for concurrent use; limits per host hold
// over everything done through one value. [Manifold.Close] it to close layouts
// that were read.
type Manifold struct {
	o   Options
	reg *registry.Client

	mu      sync.Mutex // guards layouts and writers
	layouts map[string]local
	writers map[string]*layout.Writer
}

// local is a place that is not in a registry.
type local interface {
	place
	Resolve(ctx context.Context, tag string) (oci.Blob, error)
	Close() error
}

// New returns a Manifold. It makes no request.
func New(o Options) *Manifold {
	if o.Registry.Report == nil {
		o.Registry.Report = o.Report
	}
	return &Manifold{o: o, reg: registry.NewClient(o.Registry), layouts: map[string]local{}, writers: map[string]*layout.Writer{}}
}

// Close closes the layouts that were opened.
func (m *Manifold) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	var first error
	for _, l := range m.layouts {
		if err := l.Close(); err != nil && first == nil {
			first = err
		}
	}
	for _, w := range m.writers {
		if err := w.Close(); err != nil && first == nil {
			first = err
		}
	}
	clear(m.layouts)
	clear(m.writers)
	return first
}

// place is somewhere that content can be read from.
type place interface {
	FetchManifest(ctx context.Context, d oci.Descriptor) (oci.Blob, error)
	OpenBlob(ctx context.Context, d oci.Descriptor) (io.ReadCloser, error)
	StatBlob(ctx context.Context, d oci.Descriptor) (bool, error)
}

// open returns the place of a location and the name that plans know it by.
func (m *Manifold) open(ctx context.Context, l ref.Location) (place, string, error) {
	if l.Transport == ref.Registry {
		return m.reg.Source(l.Reference), l.Reference.Name(), nil
	}
	lay, err := m.layout(ctx, l)
	return lay, placeName(l), err
}

// layout opens a place that is not in a registry, once.
func (m *Manifold) layout(ctx context.Context, l ref.Location) (local, error) {
	name := placeName(l)
	if opened := m.opened(name, nil); opened != nil {
		return opened, nil
	}
	opened, err := m.openLocal(ctx, l)
	if err != nil {
		return nil, err
	}
	first := m.opened(name, opened)
	if first != opened {
		_ = opened.Close() // somebody else was faster
	}
	return first, nil
}

// opened returns the place of a name, which is fresh if there was none.
func (m *Manifold) opened(name string, fresh local) local {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l, ok := m.layouts[name]; ok || fresh == nil {
		return l
	}
	m.layouts[name] = fresh
	return fresh
}

func (m *Manifold) openLocal(ctx context.Context, l ref.Location) (local, error) {
	switch l.Transport {
	case ref.DockerArchive:
		return notNil(layout.OpenDockerArchive(l.Path))
	case ref.DockerDaemon:
		return notNil(layout.OpenDockerDaemon(ctx, m.o.Engine, l.Path))
	}
	return notNil(layout.Open(l.Path))
}

// notNil keeps a failure from looking like a place.
func notNil[T local](l T, err error) (local, error) {
	if err != nil {
		return nil, err
	}
	return l, nil
}

// resolve reads what a location names, by the one request that its tag gets.
func (m *Manifold) resolve(ctx context.Context, l ref.Location) (oci.Blob, error) {
	if l.Transport != ref.Registry {
		lay, err := m.layout(ctx, l)
		if err != nil {
			return oci.Blob{}, err
		}
		return lay.Resolve(ctx, l.Tag)
	}
	r := l.Reference.OrLatest()
	if r.Tag != "" && r.Digest != "" {
		m.o.Report.Warn(r.String(), "has a tag and a digest: the digest is read, the tag is not looked at")
	}
	b, err := m.reg.Source(r).Manifest(ctx, r.Identifier())
	if err == nil {
		m.o.Report.Send(report.Event{Kind: report.Resolve, State: report.Done, Target: r.String(), Digest: b.Digest, Media: b.MediaType})
	}
	return b, err
}

// FetchManifest reads a manifest by digest from a repository, checked against
// digest and size. Nodes use it to read back what they pushed.
func (m *Manifold) FetchManifest(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	return m.reg.Repository(repo).FetchManifest(ctx, d)
}

// FetchPushed is [Manifold.FetchManifest] for what somebody has just pushed: a
// registry that does not show it yet is asked again, for as long as
// Options.Lag.
func (m *Manifold) FetchPushed(ctx context.Context, repo ref.Reference, d oci.Descriptor) (oci.Blob, error) {
	window := m.o.Lag
	if window == 0 {
		window = defaultLag
	}
	for pause := 100 * time.Millisecond; ; pause *= 2 {
		b, err := m.FetchManifest(ctx, repo, d)
		if err == nil || !absent(err) || pause > window {
			return b, err
		}
		window -= pause
		if err := clock.Sleep(ctx, pause); err != nil {
			return b, err
		}
	}
}

// at names the location in an error that does not name a place by itself.
func at(l ref.Location, err error) error {
	var answered *registry.Error
	if err == nil || errors.As(err, &answered) || strings.HasPrefix(err.Error(), l.String()+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", l, err)
}

// announce tells the registry client which repositories will be written to, and
// from where they can mount, before the first request is made.
func (m *Manifold) announce(sources []ref.Location, targets []ref.Reference) {
	for _, t := range targets {
		if t.AsLocation().Transport != ref.Registry {
			continue
		}
		var from []string
		for _, s := range sources {
			if s.Transport == ref.Registry && s.Reference.Host == t.Host && !s.Reference.SameRepository(t) {
				from = append(from, s.Reference.Repository)
			}
		}
		m.reg.Repository(t).Writable(from...)
	}
}

// absent reports that content is not there, wherever "there" is.
func absent(err error) bool {
	return registry.Absent(err) || layout.Absent(err)
}

// assemble makes the index and the content to publish of it.
func assemble(images []index.Image, manifests []publish.Manifest, o index.Options) (publish.Content, error) {
	root, err := index.Assemble(images, o)
	if err != nil {
		return publish.Content{}, err
	}
	return publish.Content{Root: root, Manifests: manifests}, nil
}

// platformOf reads the platform of an image from its config.
func platformOf(ctx context.Context, p place, m oci.Manifest) (oci.Platform, error) {
	rc, err := p.OpenBlob(ctx, m.Config)
	if err != nil {
		return oci.Platform{}, err
	}
	defer rc.Close()
	b, err := io.ReadAll(io.LimitReader(rc, oci.MaxConfigSize+1))
	if err != nil {
		return oci.Platform{}, err
	}
	if len(b) > oci.MaxConfigSize {
		return oci.Platform{}, fmt.Errorf("config %s: larger than %d bytes", m.Config.Digest, oci.MaxConfigSize)
	}
	c, err := oci.ParseConfig(b)
	if err != nil {
		return oci.Platform{}, fmt.Errorf("config %s: %w", m.Config.Digest, err)
	}
	return c.Platform, nil
}
