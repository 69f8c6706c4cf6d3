package cli

import (
	"io"
	"os"

	"github.com/containerd/console"
	"github.com/manifold-oci/manifold/internal/cli/render"
)

// rawDocument writes a JSON document as it is, byte for byte. A terminal gets what
// it would act on escaped, which in JSON is the same document.
func rawDocument(w io.Writer, b []byte) error {
	if onTerminal(w) {
		b = []byte(render.Document(string(b)))
	}
	_, err := w.Write(b)
	return err
}

func onTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := console.ConsoleFromFile(f)
	return err == nil
}
