package layout_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/manifold-oci/manifold/layout"
)

// A name comes before an ID, as in Docker; an ID is asked for whole, since its
// beginning could be a repository, which would come with all its tags.
func TestIDsOfAnEngine(t *testing.T) {
	whole := "abcd" + strings.Repeat("1", 60)
	var asked []string
	e := scripted(t, func(w http.ResponseWriter, r *http.Request) {
		name := r.URL.Query().Get("names")
		asked = append(asked, strings.TrimPrefix(r.URL.Path, "/images")+" "+name)
		switch {
		case r.URL.Path == "/images/abcd/json", r.URL.Path == "/images/sha256:abcd/json":
			_, _ = fmt.Fprintf(w, `{"Id":"sha256:%s","RepoTags":[]}`, whole)
		case r.URL.Path == "/images/beef/json": // the name of something else
			_, _ = fmt.Fprintf(w, `{"Id":"sha256:%s"}`, whole)
		case r.URL.Path == "/images/dead/json":
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(`{"message":"out of order"}`))
		case name == "sha256:"+whole:
			w.WriteHeader(http.StatusForbidden) // far enough
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"message":"No such image"}`))
		}
	})
	for image, want := range map[string]struct {
		asked  string
		absent bool
	}{
		"abcd":            {"/get docker.io/library/abcd:latest,/abcd/json ,/get sha256:" + whole, false},
		"sha256:abcd":     {"/get docker.io/library/sha256:abcd,/sha256:abcd/json ,/get sha256:" + whole, false},
		whole:             {"/get sha256:" + whole, false},
		"sha256:" + whole: {"/get sha256:" + whole, false},
		"beef":            {"/get docker.io/library/beef:latest,/beef/json ", true},
		"dead":            {"/get docker.io/library/dead:latest,/dead/json ", false},
		"face":            {"/get docker.io/library/face:latest,/face/json ", true},
		"abc":             {"/get docker.io/library/abc:latest", true},
		"abcd:1":          {"/get docker.io/library/abcd:1", true},
		"team/abcd":       {"/get docker.io/team/abcd:latest", true},
	} {
		asked = nil
		_, err := layout.OpenDockerDaemon(t.Context(), e, image)
		if got := strings.Join(asked, ","); got != want.asked || err == nil || layout.Absent(err) != want.absent {
			t.Errorf("%s: asked for %s\nwant %s\n%v", image, got, want.asked, err)
		}
	}
}
