package buildkit

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	buildx "github.com/docker/buildx/build"
)

// stdin keeps a context or Dockerfile that came over standard input, so that
// every node and every pass can read it from its beginning: buildx's reader
// serves those that start together, and only once.
type stdin struct {
	dir string

	mu   sync.Mutex
	file *os.File
	size int64
	err  error
	done bool
}

// attach gives in a reader of its own if it reads standard input.
func (s *stdin) attach(in *buildx.Inputs) error {
	if in.InStream == nil || (in.ContextPath != "-" && in.DockerfilePath != "-") {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done {
		s.done, s.err = true, s.drain(in.InStream)
	}
	if s.err != nil {
		return fmt.Errorf("standard input: %w", s.err)
	}
	in.InStream = buildx.NewSyncMultiReader(io.NewSectionReader(s.file, 0, s.size))
	return nil
}

func (s *stdin) drain(from *buildx.SyncMultiReader) error {
	f, err := os.CreateTemp(s.dir, "manifold-stdin-*")
	if err != nil {
		return err
	}
	s.file = f
	r := from.NewReadCloser()
	defer r.Close()
	s.size, err = io.Copy(f, r)
	return err
}

// Close removes the copy.
func (s *stdin) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}
