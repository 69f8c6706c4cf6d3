package cli

import (
	"fmt"
	"io"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/plan"
	"github.com/spf13/pflag"
)

// outputFlags say how a result is printed.
type outputFlags struct {
	json  bool
	quiet bool
}

func (o *outputFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "Print the digest only, no progress")
}

// display is the progress that goes with the output: none when quiet.
func (o *outputFlags) display(progress string) string {
	if o.quiet {
		return "none"
	}
	return progress
}

// publishFailed prints what a failed publish did before its error.
func (o *outputFlags) publishFailed(h Host, r manifold.Receipt, err error) error {
	if r.Digest == "" && len(r.Leftovers) == 0 {
		return err
	}
	if o.json {
		_ = render.JSON(h.Out, r)
	} else {
		render.Fates(h.Err, r)
	}
	return err
}

// planned prints a plan that is not carried out: as "plan show" does, or the
// digest of what it would publish.
func (o *outputFlags) planned(w io.Writer, p plan.Plan) error {
	switch {
	case o.json:
		return planDocument(w, p)
	case o.quiet:
		_, err := fmt.Fprintln(w, p.Root.Digest)
		return err
	}
	return render.Plan(w, p)
}

// print prints a receipt: the digest, or one JSON document.
func (o *outputFlags) print(w io.Writer, r manifold.Receipt) error {
	switch {
	case o.json:
		return render.JSON(w, r)
	case o.quiet:
		_, err := fmt.Fprintln(w, r.Digest)
		return err
	}
	return render.Receipt(w, r)
}
