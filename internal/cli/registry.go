package cli

import (
	"log/slog"
	"time"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/layout"
	"github.com/manifold-oci/manifold/ref"
	"github.com/manifold-oci/manifold/registry"
	"github.com/manifold-oci/manifold/report"
	"github.com/spf13/pflag"
)

// registryFlags are the flags of every command that speaks to a registry.
type registryFlags struct {
	plainHTTP   []string
	insecure    []string
	maxRequests requestCount
	maxRate     requestRate
	chunkSize   byteSize
	idleTimeout idleTime
	mirrors     mirrorFlag
	ca          []string
	cert, key   string
	verbose     bool

	// trace is set by watch.
	trace *digestTrace
}

func (r *registryFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&r.plainHTTP, "plain-http", nil, "Registry `hosts` to speak to in plain HTTP; loopback needs no flag")
	f.StringSliceVar(&r.insecure, "insecure", nil, "Registry `hosts` whose certificate is not verified")
	f.Var(&r.maxRequests, "max-requests", "Requests under way at once per host (default: 10, growing to 24 while it answers well)")
	f.Var(&r.maxRate, "max-rate", "Requests begun per second and host (default no limit)")
	f.Var(&r.chunkSize, "chunk-size", "Send larger blobs in pieces of this `size`, as 64MB, where the registry takes them (default: each at once)")
	f.Var(&r.idleTimeout, "idle-timeout", "Give a request up when no byte has moved for this `time`, as 30s, and send it once more if that is safe; an answer that takes no content in and gives no blob is awaited for a minute at the most; 0 waits for ever (default 5m)")
	r.mirrors = mirrorFlag{}
	f.Var(r.mirrors, "mirror", "Read a registry's images from another one first, `HOST=MIRROR[/PREFIX]`")
	f.StringSliceVar(&r.ca, "ca", nil, "`Files` with certificates of authorities to trust, besides the system's and those in Docker's certs.d")
	f.StringVar(&r.cert, "cert", "", "`File` with the client certificate to show")
	f.StringVar(&r.key, "key", "", "`File` with the key of --cert")
	f.BoolVarP(&r.verbose, "verbose", "v", false, "Log every request to stderr, where each login came from, and the digests of what was published: local, answered, read back")
}

// library returns the library with the credentials of Docker's config.
func (r *registryFlags) library(h Host, sink report.Sink) *manifold.Manifold {
	o := manifold.Options{Report: sink, Registry: r.options(h), Engine: h.engine()}
	o.JournalDir, _ = h.journalDir() // without a place, nothing is remembered
	r.watch(&o)
	return manifold.New(o)
}

// engine is the Docker Engine that docker's own command line would ask.
func (h Host) engine() layout.Engine {
	return layout.Engine{
		Host: h.getenv("DOCKER_HOST"), CertPath: h.getenv("DOCKER_CERT_PATH"), Verify: h.getenv("DOCKER_TLS_VERIFY") != "",
	}
}

func (r *registryFlags) options(h Host) registry.Options {
	o := registry.Options{
		PlainHTTP: r.plainHTTP, Insecure: r.insecure, MaxConcurrent: int(r.maxRequests), MaxRate: float64(r.maxRate),
		ChunkSize: int64(r.chunkSize), IdleTimeout: time.Duration(r.idleTimeout), Mirrors: r.mirrors, TLS: r.certificates(h).TLS(),
		UserAgent:   "manifold/" + h.Version,
		Credentials: registry.DockerCredentials(h.logins()),
	}
	if r.verbose {
		o.Log = slog.New(slog.NewTextHandler(h.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o
}

// certificates are those of flags besides those of the machine.
func (r *registryFlags) certificates(h Host) registry.Certificates {
	c := h.certificates()
	c.CA, c.Cert, c.Key = r.ca, r.cert, r.key
	return c
}

// targets reads the references of -t; one without a tag means latest.
func targets(tags []string) ([]ref.Reference, error) {
	var out []ref.Reference
	for _, t := range tags {
		l, err := ref.ParseLocation(t)
		if err != nil {
			return nil, &exitError{code: ExitUsage, err: err}
		}
		if l.Transport != ref.Registry {
			return nil, usage("%q: a target is a reference; manifold copy writes to layouts and archives", t)
		}
		r := l.Reference
		if r.Digest != "" && r.Tag != "" {
			return nil, usage("%q: a target has a tag or a digest, not both", t)
		}
		out = append(out, r.OrLatest())
	}
	return out, nil
}
