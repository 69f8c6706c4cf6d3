package cli

import (
	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/report"
)

// watch has a publish with -v note the digests that registries answered and gave
// back.
func (r *registryFlags) watch(o *manifold.Options) {
	if !r.verbose {
		return
	}
	r.trace = &digestTrace{}
	o.Registry.OnRequest = r.trace.request
	o.Report = r.trace.sink(o.Report)
}

// compared prints, with -v, one line per manifest of what was published, the
// index last: its digest here, in the registry's answer, and as read back. What
// a node has pushed, or was there already, was answered to nobody here.
func (r *registryFlags) compared(h Host, done manifold.Receipt) {
	if r.trace == nil || done.Digest == "" {
		return
	}
	for _, p := range done.Platforms {
		r.trace.line(h.Err, p.Digest, p.Platform)
		for _, a := range p.Attestations {
			r.trace.line(h.Err, a, "attestation of "+p.Platform)
		}
	}
	r.trace.line(h.Err, done.Digest, string(report.Tag)+" "+firstTag(done))
}

func firstTag(done manifold.Receipt) string {
	if len(done.Tags) == 0 {
		return "none"
	}
	return done.Tags[0].Reference
}
