package manifold_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/apply"
	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/opencontainers/go-digest"
)

// racer is one of two jobs that publish under one tag. It notes when its
// requests for the tag went out and came back, by one clock for both jobs.
type racer struct {
	clock *atomic.Int64

	mu   sync.Mutex
	puts [2]int64 // the tag's PUT: sent, answered
	read [2]int64 // the last GET of the tag: sent, answered
	look [2]int64 // the last GET before the PUT
	made digest.Digest
	err  error
}

func (j *racer) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.HasSuffix(req.URL.Path, "/manifests/tag") || req.Method == http.MethodHead {
		return http.DefaultTransport.RoundTrip(req)
	}
	sent := j.clock.Add(1)
	resp, err := http.DefaultTransport.RoundTrip(req)
	at := [2]int64{sent, j.clock.Add(1)}
	j.mu.Lock()
	defer j.mu.Unlock()
	if req.Method == http.MethodPut {
		j.puts, j.look = at, j.read
	} else {
		j.read = at
	}
	return resp, err
}

func (j *racer) publish(t *testing.T, l lane, round int, name, image string, o manifold.PublishOptions) {
	m := manifold.New(manifold.Options{Registry: registry.Options{Transport: j}})
	defer m.Close()
	source, err := ref.ParseLocation(l.Reference(l.repo, image))
	if err != nil {
		t.Error(err)
		return
	}
	var made manifold.Created
	made, j.err = m.Create(t.Context(), manifold.CreateOptions{
		PublishOptions: o, Sources: []ref.Location{source}, Targets: []ref.Reference{tagOf(t, l)},
		Annotations: map[string]string{"org.opencontainers.image.version": fmt.Sprintf("%s %d", name, round)},
	})
	j.made = made.Index.Digest
}

func tagOf(t *testing.T, l lane) ref.Reference {
	name, err := ref.Parse(l.Reference(l.repo, "tag"))
	if err != nil {
		t.Error(err)
	}
	return name
}

// race runs two jobs at the same time, and returns the one whose index the tag
// names, and the other; ok is false when it names neither.
func race(t *testing.T, l lane, round int, o manifold.PublishOptions) (won, lost *racer, ok bool) {
	clock := &atomic.Int64{}
	a, b := &racer{clock: clock}, &racer{clock: clock}
	var wg sync.WaitGroup
	wg.Go(func() { a.publish(t, l, round, "a", "amd", o) })
	wg.Go(func() { b.publish(t, l, round, "b", "arm", o) })
	wg.Wait()
	switch now, _ := l.Manifest(l.repo, "tag"); now.Digest {
	case a.made:
		return a, b, true
	case b.made:
		return b, a, true
	}
	t.Errorf("%s: round %d: the tag names neither job's index", l.repo, round)
	return nil, nil, false
}

// lane is a repository of its own to race in.
type lane struct {
	*registrytest.Registry
	repo string
}

// racing runs 200 rounds, 100 on each of two registries, in lanes side by side:
// most of a round with a precondition is waiting.
func racing(t *testing.T, rounds func(l lane, from, to int)) {
	t.Helper()
	var wg sync.WaitGroup
	for _, r := range []*registrytest.Registry{registrytest.Distribution(t), registrytest.Docker28(t)} {
		for i := range 10 {
			l := lane{r, fmt.Sprintf("race/%s-%d", r.Kind, i)}
			for name, platform := range map[string]string{"amd": "linux/amd64", "arm": "linux/arm64", "tag": "linux/s390x"} {
				r.Push(l.repo, name, registrytest.Image(t, platform, registrytest.ImageOptions{}))
			}
			wg.Go(func() { rounds(l, 10*i, 10*i+10) })
		}
	}
	wg.Wait()
}

// TestLoserOfARaceAlwaysKnows: 200 times two jobs publish under one tag at the
// same time. The one whose index the tag does not name in the end has been told
// so, by the name of the other one, unless it had published whole, and looked,
// before the other one had written: then it was not overtaken, one came after the
// other, and the last one stays.
func TestLoserOfARaceAlwaysKnows(t *testing.T) {
	var told atomic.Int64
	racing(t, func(l lane, from, to int) {
		for round := from; round < to; round++ {
			if won, lost, ok := race(t, l, round, manifold.PublishOptions{}); ok && knows(t, round, won, lost) {
				told.Add(1)
			}
		}
	})
	t.Logf("%d of 200 losers were overtaken", told.Load())
}

// knows reports that the loser was overtaken and told so.
func knows(t *testing.T, round int, won, lost *racer) bool {
	if won.err != nil {
		t.Errorf("round %d: the winner failed: %v", round, won.err)
	}
	var raced *apply.RaceError
	switch {
	case errors.As(lost.err, &raced):
		if raced.Got != won.made || !strings.Contains(raced.Error(), "version") {
			t.Errorf("round %d: the loser names another writer: %v", round, raced)
		}
		return true
	case lost.err != nil:
		t.Errorf("round %d: the loser failed otherwise: %v", round, lost.err)
	case lost.read[0] > won.puts[1]:
		t.Errorf("round %d: the loser looked at the tag after the winner had written it, and does not know", round)
	}
	return false
}

// TestPreconditionLetsOneJobThrough: 200 times again, but each job moves the tag
// only if it names what it named before both. The loser has written nothing, or
// is told that it was overtaken; both succeed only if one stood still between its
// look and its write for longer than the other one waited.
func TestPreconditionLetsOneJobThrough(t *testing.T) {
	racing(t, func(l lane, from, to int) {
		before, _ := l.Manifest(l.repo, "tag")
		expected := before.Digest
		for round := from; round < to; round++ {
			o := manifold.PublishOptions{Expect: []manifold.Expectation{{Tag: tagOf(t, l), Digest: expected}}}
			won, lost, ok := race(t, l, round, o)
			if !ok {
				return
			}
			expected = won.made
			onlyOne(t, round, won, lost)
		}
	})
}

func onlyOne(t *testing.T, round int, won, lost *racer) {
	if won.err != nil {
		t.Errorf("round %d: the winner failed: %v", round, won.err)
	}
	var raced *apply.RaceError
	var precondition *plan.PreconditionError
	switch {
	case errors.As(lost.err, &raced), errors.As(lost.err, &precondition):
	case lost.err != nil:
		t.Errorf("round %d: the loser failed otherwise: %v", round, lost.err)
	case won.look[0] > lost.puts[1] || won.puts[1] < lost.read[0]:
		t.Errorf("round %d: both succeeded, though one could have seen the other", round)
	default:
		t.Logf("round %d: one stood still between its look and its write", round)
	}
}
