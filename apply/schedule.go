package apply

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
	"golang.org/x/sync/errgroup"
)

// defaultLag is the window for read-after-write lag. Registries behind caches
// have been seen to need several seconds (estesp/manifest-tool#191).
const defaultLag = 30 * time.Second

// maxParallel bounds the steps under way at once over all hosts; the limit that
// protects a host is the one in its HTTP chain.
const maxParallel = 64

// run is the state of one plan being carried out.
type run struct {
	plan plan.Plan
	o    Options

	mu     sync.Mutex // guards what follows
	tags   []TagResult
	result Result
	// fresh is content that this run knows not to have been there before; seen
	// are manifests that it found before it sent them.
	fresh, seen map[content]bool
	// settled is how long to wait before a tag with a precondition is confirmed.
	// It is read when all tags have moved.
	settled time.Duration
}

// content is a blob or manifest at a target.
type content struct {
	target string
	digest digest.Digest
}

func of(s plan.Step) content { return content{target: s.Target, digest: s.Digest} }

func (r *run) note(set map[content]bool, c content) {
	r.mu.Lock()
	defer r.mu.Unlock()
	set[c] = true
}

func (r *run) noted(set map[content]bool, c content) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return set[c]
}

// schedule runs every step as soon as the steps it waits for are done. The
// first error cancels the steps under way and starts no others.
func (r *run) schedule(ctx context.Context) error {
	done := make(map[string]chan struct{}, len(r.plan.Steps))
	for _, s := range r.plan.Steps {
		done[s.ID] = make(chan struct{})
	}
	eg, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, maxParallel)
	for _, s := range r.plan.Steps {
		eg.Go(func() error {
			if err := await(ctx, done, s.After); err != nil {
				return err
			}
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := r.step(ctx, s); err != nil {
				return &StepError{Step: s, Err: err}
			}
			r.o.Journal.Done(s.ID)
			close(done[s.ID])
			return nil
		})
	}
	return eg.Wait()
}

// await returns when all steps are done, or the context ended.
func await(ctx context.Context, done map[string]chan struct{}, ids []string) error {
	for _, id := range ids {
		select {
		case <-done[id]:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return context.Cause(ctx)
}

// target splits the name of a repository that a validated plan carries.
func target(name string) ref.Reference {
	host, repo, _ := strings.Cut(name, "/")
	return ref.Reference{Host: host, Repository: repo}
}
