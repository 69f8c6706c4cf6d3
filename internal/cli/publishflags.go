package cli

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/manifold-oci/manifold"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/plan"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/pflag"
)

// publishFlags are the flags of every command that publishes.
type publishFlags struct {
	expect    []string
	noClobber bool
	receipt   string
	planOut   string
}

func (p *publishFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&p.expect, "expect", nil, "Move a tag only if it names this, `TAG=DIGEST`, or TAG=none for a tag that must not be there; may be repeated")
	f.BoolVar(&p.noClobber, "no-clobber", false, "Move no tag that names something else")
	f.StringVar(&p.receipt, "receipt", "", "Write what was done to a `file` as JSON, also when it failed")
}

// addPlan adds the flag of those commands whose plan another process can run.
func (p *publishFlags) addPlan(f *pflag.FlagSet) {
	f.StringVar(&p.planOut, "plan-out", "", "Write the plan to a `file` and publish nothing; run it with: manifold apply")
}

func (p *publishFlags) set() bool {
	return len(p.expect) > 0 || p.noClobber || p.receipt != "" || p.planOut != ""
}

// publishing reads the preconditions on the tags of targets.
func (p *publishFlags) publishing(targets []ref.Reference) (manifold.PublishOptions, error) {
	o := manifold.PublishOptions{NoClobber: p.noClobber}
	for _, s := range p.expect {
		e, err := manifold.ParseExpectation(s, targets)
		if err != nil {
			return o, usage("--expect %w", err)
		}
		o.Expect = append(o.Expect, e...)
	}
	return o, nil
}

// record writes the receipt file and returns the error of the publish, and of
// the writing.
func (p *publishFlags) record(r manifold.Receipt, err error) error {
	if p.receipt == "" {
		return err
	}
	if r.Error == "" && err != nil {
		r.Error = redact.Text(err.Error())
	}
	var b bytes.Buffer
	writeErr := render.JSON(&b, r)
	if writeErr == nil {
		writeErr = writeWhole(p.receipt, b.Bytes())
	}
	switch {
	case writeErr == nil:
		return err
	case err == nil:
		return fmt.Errorf("published, but the receipt could not be written: %w", writeErr)
	}
	return errors.Join(err, fmt.Errorf("the receipt could not be written: %w", writeErr))
}

// showPlan writes the plan file, and prints what is in it.
func (p *publishFlags) showPlan(h Host, made plan.Plan) error {
	var b bytes.Buffer
	if err := made.Write(&b); err != nil {
		return err
	}
	if err := writeWhole(p.planOut, append(b.Bytes(), '\n')); err != nil {
		return err
	}
	return render.Plan(h.Out, made)
}
