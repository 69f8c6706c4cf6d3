package registry

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// scopes is what tokens for one repository are asked for. It only grows, and
// every request of the repository uses all of it, so that one token serves the
// lot; a source that the registry refuses is taken out again for good.
type scopes struct {
	mu      sync.Mutex
	push    bool
	sources []string
	refused []string
}

func (h *host) scopesOf(repository string) *scopes {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.scopes[repository]
	if !ok {
		s = &scopes{}
		h.scopes[repository] = s
	}
	return s
}

// write adds pushing, and pulling from sources.
func (s *scopes) write(sources ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.push = true
	for _, from := range sources {
		if !slices.Contains(s.sources, from) && !slices.Contains(s.refused, from) {
			s.sources = append(s.sources, from)
		}
	}
}

// refuse takes a source out: an issuer that does not grant it may refuse the
// whole token.
func (s *scopes) refuse(source string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = append(s.refused, source)
	s.sources = slices.DeleteFunc(s.sources, func(x string) bool { return x == source })
}

func (s *scopes) isRefused(source string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.refused, source)
}

// list returns the scopes of a token for repository. Deleting is asked for only
// by those who delete, since issuers may refuse it.
func (s *scopes) list(repository string, deleting bool) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	actions := []string{"pull"}
	if s.push {
		actions = append(actions, "push")
	}
	if deleting {
		actions = append(actions, "delete")
	}
	out := []string{scope(repository, actions...)}
	for _, from := range s.sources {
		if from != repository {
			out = append(out, scope(from, "pull"))
		}
	}
	return out
}

func scope(repository string, actions ...string) string {
	return fmt.Sprintf("repository:%s:%s", repository, strings.Join(actions, ","))
}
