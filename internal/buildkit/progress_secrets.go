package buildkit

import (
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/moby/buildkit/client"
)

// withoutSecrets is what may be shown of the steps of a build: a source is named
// by its address, with the login and the tokens in it. What a step itself prints
// is left as it is.
func withoutSecrets(s *client.SolveStatus) *client.SolveStatus {
	out := *s
	out.Vertexes = make([]*client.Vertex, len(s.Vertexes))
	for i, v := range s.Vertexes {
		shown := *v
		shown.Name, shown.Error = redact.Text(v.Name), redact.Text(v.Error)
		out.Vertexes[i] = &shown
	}
	return &out
}
