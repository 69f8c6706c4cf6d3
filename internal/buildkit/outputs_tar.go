package buildkit

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"

	buildx "github.com/docker/buildx/build"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/client"
)

// tars are the outputs that hold files, and where the parts of archives wait
// until all of them are there.
type tars struct {
	entries []client.ExportEntry
	dir     string
}

func (n *Nodes) newTars(entries []client.ExportEntry) (*tars, error) {
	dir, err := os.MkdirTemp(n.options.TempDir, "manifold-files-*")
	if err != nil {
		return nil, err
	}
	n.onClose(func() error { return os.RemoveAll(dir) })
	return &tars{entries: entries, dir: dir}, nil
}

func (t *tars) part(i int, p oci.Platform) string {
	return filepath.Join(t.dir, fmt.Sprintf("%d-%s.tar", i, folder(p)))
}

// options write the parts of one platform.
func (t *tars) options(spec *Spec, p oci.Platform) buildx.Options {
	o := platformOptions(spec, p)
	o.CacheTo = inlineOnly(o.CacheTo)
	maps.Copy(o.Attests, spec.Attests)
	for i, e := range t.entries {
		own := apart(e, spec)
		e.Attrs = without(e.Attrs, "platform-split")
		if e.Attrs == nil {
			e.Attrs = map[string]string{}
		}
		e.Attrs["platform-split"] = "false"
		if e.Output != nil {
			e.Output = func(map[string]string) (io.WriteCloser, error) { return os.Create(t.part(i, p)) }
		} else if own {
			e.OutputDir = filepath.Join(e.OutputDir, folder(p))
		}
		o.Exports = append(o.Exports, e)
	}
	return o
}

// join writes each archive out of its parts.
func (t *tars) join(spec *Spec) error {
	for i, e := range t.entries {
		if e.Output == nil {
			continue
		}
		out, err := e.Output(nil)
		if err != nil {
			return err
		}
		if err := errors.Join(t.joinOne(i, spec, apart(e, spec), out), out.Close()); err != nil {
			return fmt.Errorf("tar output: %w", err)
		}
	}
	return nil
}

func (t *tars) joinOne(i int, spec *Spec, own bool, out io.Writer) error {
	w := tar.NewWriter(out)
	seen := map[string]bool{}
	for _, p := range spec.Platforms {
		prefix := ""
		if own {
			prefix = folder(p) + "/"
		}
		if err := appendTar(w, t.part(i, p), prefix, seen); err != nil {
			return err
		}
	}
	return w.Close()
}

// appendTar copies the members of an archive below prefix. A folder that is
// there already is not repeated.
func appendTar(w *tar.Writer, name, prefix string, seen map[string]bool) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if prefix != "" && !seen[prefix] {
		seen[prefix] = true
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: prefix, Mode: 0o755}); err != nil {
			return err
		}
	}
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Name = below(prefix, h.Name, h.Typeflag == tar.TypeDir); h.Typeflag == tar.TypeDir && seen[h.Name] {
			continue
		}
		seen[h.Name] = true
		if h.Typeflag == tar.TypeLink {
			h.Linkname = below(prefix, h.Linkname, false)
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.Copy(w, r); err != nil {
			return err
		}
	}
}

func below(prefix, name string, isDir bool) string {
	name = path.Join(prefix, path.Clean("/" + name)[1:])
	if isDir {
		name += "/"
	}
	return name
}
