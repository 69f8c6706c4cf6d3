package cli_test

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/oci"
)

var _ = scriptCommands(map[string]scriptCommand{
	"silent":  silent,
	"endless": endless,
	"heavy":   heavy,
})

// heavy NAME IMAGE BYTES: an index of an image whose entry has an annotation of
// so many bytes.
func heavy(k *kit, args []string) {
	c := k.content(args[1])
	entry := c.Entry()
	entry.Annotations = map[string]string{"org.example.pad": strings.Repeat("a", k.number(args[2]))}
	b, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": oci.MediaTypeIndex, "manifests": []oci.Descriptor{entry}})
	k.ts.Check(err)
	k.keep(args[0], registrytest.Content{Root: oci.NewBlob(oci.MediaTypeIndex, b), Children: []registrytest.Content{c}})
}

// silent NAME: something takes connections and never says a word; $NAME is its
// endpoint.
func silent(k *kit, args []string) {
	dir, err := nodes.temp()
	k.ts.Check(err)
	path := filepath.Join(dir, "silent-"+args[0])
	l, err := net.Listen("unix", path)
	k.ts.Check(err)
	k.Cleanup(func() { _ = l.Close() })
	k.ts.Setenv(args[0], "unix://"+path)
}

// endless NAME: a host whose every answer is an index without a length and
// without an end; $NAME is its host:port.
func endless(k *kit, args []string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", oci.MediaTypeIndex)
		spaces := bytes.Repeat([]byte(" "), 1<<16)
		for err := error(nil); err == nil; {
			_, err = w.Write(spaces)
		}
	}))
	k.Cleanup(s.Close)
	k.ts.Setenv(args[0], strings.TrimPrefix(s.URL, "http://"))
}
