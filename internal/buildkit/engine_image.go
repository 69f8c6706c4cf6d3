package buildkit

import (
	"context"
	"crypto/rand"
	"errors"
	"io"

	"github.com/containerd/errdefs"
	mobyclient "github.com/moby/moby/client"
)

// takeOut takes images that are built now out of an engine. Its exporters can
// only add to its images, so what a build adds is removed again; its steps stay
// in the engine's build cache.
type takeOut struct {
	engine mobyclient.APIClient
	// nameless were there before. A build that makes one of them once more has
	// added nothing.
	nameless map[string]bool
}

func newTakeOut(ctx context.Context, engine mobyclient.APIClient) (*takeOut, error) {
	dangling := mobyclient.Filters{}.Add("dangling", "true")
	list, err := engine.ImageList(ctx, mobyclient.ImageListOptions{Filters: dangling})
	if err != nil {
		return nil, err
	}
	t := &takeOut{engine: engine, nameless: map[string]bool{}}
	for _, im := range list.Items {
		t.nameless[im.ID] = true
	}
	return t, nil
}

// save writes the archive of an image to w. The error is one of
// [errdefs.IsNotFound] if the image is not there any more; engines call that a
// fault of their own.
func (t *takeOut) save(ctx context.Context, id string, w io.Writer) error {
	body, err := t.engine.ImageSave(ctx, []string{id})
	if err != nil {
		if _, gone := t.engine.ImageInspect(ctx, id); errdefs.IsNotFound(gone) {
			return gone
		}
		return err
	}
	_, err = io.Copy(w, body)
	return errors.Join(err, body.Close())
}

// forget removes an image that has no name and is not used. Others may have
// named it since: by its ID an engine would remove their name as well, by a name
// it removes nothing that has another one. So it gets a name to be removed by.
func (t *takeOut) forget(ctx context.Context, id string) error {
	if t.nameless[id] {
		return nil
	}
	name := "manifold.invalid/built:" + rand.Text()
	_, err := t.engine.ImageTag(ctx, mobyclient.ImageTagOptions{Source: id, Target: name})
	if errdefs.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = t.engine.ImageRemove(ctx, name, mobyclient.ImageRemoveOptions{})
	return err
}
