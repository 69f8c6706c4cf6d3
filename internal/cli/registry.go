package cli

import (
	"log/slog"

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
	maxRequests int
	verbose     bool
}

func (r *registryFlags) add(f *pflag.FlagSet) {
	f.StringSliceVar(&r.plainHTTP, "plain-http", nil, "Registry `hosts` to speak to in plain HTTP; loopback needs no flag")
	f.StringSliceVar(&r.insecure, "insecure", nil, "Registry `hosts` whose certificate is not verified")
	f.IntVar(&r.maxRequests, "max-requests", 0, "Requests under way at once per host (default 6)")
	f.BoolVarP(&r.verbose, "verbose", "v", false, "Log every request to stderr")
}

// library returns the library with the credentials of Docker's config.
func (r *registryFlags) library(h Host, sink report.Sink) *manifold.Manifold {
	o := manifold.Options{Report: sink, Registry: r.options(h), Engine: h.engine()}
	o.JournalDir, _ = h.journalDir() // without a place, nothing is remembered
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
		PlainHTTP: r.plainHTTP, Insecure: r.insecure, MaxConcurrent: r.maxRequests,
		UserAgent: "manifold/" + h.Version,
		Credentials: registry.DockerCredentials(registry.DockerConfig{
			Path: h.dockerConfig(), AuthConfig: h.getenv("DOCKER_AUTH_CONFIG"),
		}),
	}
	if r.verbose {
		o.Log = slog.New(slog.NewTextHandler(h.Err, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	return o
}

// targets reads the references of -t; one without a tag means latest.
func targets(tags []string) ([]ref.Reference, error) {
	var out []ref.Reference
	for _, t := range tags {
		r, err := ref.Parse(t)
		if err != nil {
			return nil, &exitError{code: ExitUsage, err: err}
		}
		if r.Digest != "" && r.Tag != "" {
			return nil, usage("%q: a target has a tag or a digest, not both", t)
		}
		out = append(out, r.OrLatest())
	}
	return out, nil
}
