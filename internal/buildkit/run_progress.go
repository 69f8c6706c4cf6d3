package buildkit

import (
	"slices"
	"strings"
	"sync"

	"github.com/docker/buildx/util/progress"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
)

// attestationLabel stands behind the platform in front of the steps of a
// second pass.
const attestationLabel = " attestation"

// secondPass shows of a second pass what the first one has not shown: steps
// that were not cached, such as the scan of an SBOM, and the export. Warnings
// were given already.
type secondPass struct {
	progress.Writer

	mu    sync.Mutex
	shown map[digest.Digest]bool
}

func newSecondPass(w progress.Writer) *secondPass {
	return &secondPass{Writer: w, shown: map[digest.Digest]bool{}}
}

// Write drops what is not to be shown.
func (s *secondPass) Write(st *client.SolveStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &client.SolveStatus{}
	for _, v := range st.Vertexes {
		if v.Error != "" || (v.Started != nil && !v.Cached && !isInternal(v.Name)) {
			s.shown[v.Digest] = true
			out.Vertexes = append(out.Vertexes, v)
		}
	}
	out.Statuses = slices.DeleteFunc(slices.Clone(st.Statuses), func(v *client.VertexStatus) bool { return !s.shown[v.Vertex] })
	out.Logs = slices.DeleteFunc(slices.Clone(st.Logs), func(v *client.VertexLog) bool { return !s.shown[v.Vertex] })
	s.Writer.Write(out)
}

// isInternal recognises the transfer of context and Dockerfile.
func isInternal(name string) bool {
	return strings.Contains(name, attestationLabel+" internal]")
}
