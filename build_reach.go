package manifold

import (
	"context"
	"errors"

	"github.com/manifold-oci/manifold/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"golang.org/x/sync/errgroup"
)

// Reach asks the registries whether they answer and take the login, by one HEAD
// of a tag for each repository of refs: before long work whose result is
// published there. Whether the tag is there does not matter.
//
// The error is a [*registry.Error] of the first that gave no answer or refused.
// What else a registry answers is left to whoever publishes.
func (m *Manifold) Reach(ctx context.Context, refs []ref.Reference) error {
	group, ctx := errgroup.WithContext(ctx)
	seen := map[string]bool{}
	for _, r := range refs {
		if seen[r.Name()] || r.AsLocation().Transport != ref.Registry {
			continue
		}
		seen[r.Name()] = true
		group.Go(func() error {
			_, err := m.reg.Repository(r).Resolve(ctx, r.Repo().WithTag(r.Tag).OrLatest().Tag)
			if !hopeless(err) {
				return nil
			}
			return err
		})
	}
	return group.Wait()
}

// hopeless reports a registry that gave no answer, or refused the login.
func hopeless(err error) bool {
	var e *registry.Error
	return errors.As(err, &e) && (e.Status == 0 && !answered(err) || registry.Denied(err))
}

// answered reports an error of this side about an answer: that it asks for more
// patience than there is, or gives what is not taken for the tag.
func answered(err error) bool {
	var wait *registry.WaitError
	var other *oci.MismatchError
	var unread *oci.SyntaxError
	return errors.As(err, &wait) || errors.As(err, &other) || errors.As(err, &unread)
}

// runReachable builds, and asks the registries of the targets meanwhile: one that
// is down ends the build at once.
func (m *Manifold) runReachable(ctx context.Context, o BuildOptions) ([]build.Image, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	asked := make(chan struct{})
	asking, stop := context.WithCancel(ctx)
	go func() {
		defer close(asked)
		if err := m.Reach(asking, o.Targets); err != nil && asking.Err() == nil {
			cancel(err)
		}
	}()
	images, err := build.Run(ctx, o.Nodes, o.Run(m.o.Report))
	stop()
	<-asked
	cancel(nil)
	return images, err
}
