package buildkit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/buildkit/client"
	"github.com/opencontainers/go-digest"
)

// recorder is a progress writer that keeps what is shown.
type recorder struct {
	silent
	seen []string
}

func (r *recorder) Write(s *client.SolveStatus) {
	for _, v := range s.Vertexes {
		r.seen = append(r.seen, v.Name)
	}
	for _, l := range s.Logs {
		r.seen = append(r.seen, string(l.Data))
	}
	for _, w := range s.Warnings {
		r.seen = append(r.seen, string(w.Short))
	}
}

func TestSecondPassShowsOnlyWhatIsNew(t *testing.T) {
	now := time.Now()
	id := func(s string) digest.Digest { return digest.FromString(s) }
	r := &recorder{}
	newSecondPass(r).Write(&client.SolveStatus{
		Vertexes: []*client.Vertex{
			{Digest: id("waits"), Name: "[linux/amd64 attestation 3/3] RUN c"},
			{Digest: id("cached"), Name: "[linux/amd64 attestation 1/3] RUN a", Started: &now, Cached: true},
			{Digest: id("internal"), Name: "[linux/amd64 attestation internal] load build context", Started: &now},
			{Digest: id("sbom"), Name: "[linux/amd64 attestation] generating sbom", Started: &now},
			{Digest: id("failed"), Name: "[linux/amd64 attestation internal] load .dockerignore", Error: "x"},
		},
		Logs: []*client.VertexLog{
			{Vertex: id("internal"), Data: []byte("hidden")}, {Vertex: id("sbom"), Data: []byte("scanning")},
		},
		Warnings: []*client.VertexWarning{{Short: []byte("given already")}},
	})
	want := []string{"[linux/amd64 attestation] generating sbom", "[linux/amd64 attestation internal] load .dockerignore", "scanning"}
	if diff := cmp.Diff(want, r.seen); diff != "" {
		t.Error(diff)
	}
}

func TestTargetOfBuildxIsNotRepeatedInErrors(t *testing.T) {
	cause := errors.New("exit code 1")
	err := trimTarget(fmt.Errorf("%w", fmt.Errorf("target linux/amd64: %w", cause)), "linux/amd64")
	if err.Error() != cause.Error() || !errors.Is(err, cause) {
		t.Errorf("%q", err)
	}
	if got := trimTarget(cause, "linux/amd64"); got != cause {
		t.Errorf("%q", got)
	}
}

func TestAnswersOfExportersThatSayTooLittleAreErrors(t *testing.T) {
	for name, response := range map[string]map[string]string{
		"nothing":    {},
		"not base64": {"containerimage.descriptor": "{}"},
		"not JSON":   {"containerimage.descriptor": "eA=="},
		"no digest":  {"containerimage.descriptor": "e30="},
	} {
		var export *ExportError
		if _, err := exported(&client.SolveResponse{ExporterResponse: response}); !errors.As(err, &export) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRepositoriesAreListedOnce(t *testing.T) {
	repos, err := repositories([]string{"r.test/a:1", "r.test/b", "r.test/a:2", "busybox"})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range repos {
		got = append(got, r.String())
	}
	if diff := cmp.Diff([]string{"r.test/a", "r.test/b", "docker.io/library/busybox"}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := repositories([]string{"UPPER"}); err == nil {
		t.Error("accepted")
	}
}
