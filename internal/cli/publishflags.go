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
	f.StringArrayVar(&p.expect, "expect", nil, "Move a tag only if it names this, `TAG=DIGEST`, or TAG=none if it is not there yet; one that names the result already is right; may be repeated")
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

// check refuses what is asked for and cannot be: a receipt of a publish that
// does not take place, files at places that cannot be written.
func (p *publishFlags) check(dryRun bool, files ...outputFile) error {
	switch {
	case p.receipt != "" && p.planOut != "":
		return usage("--receipt: --plan-out publishes nothing; give it to manifold apply")
	case p.receipt != "" && dryRun:
		return usage("--receipt: --dry-run publishes nothing")
	}
	return checkFiles(append(files, outputFile{"receipt", p.receipt}, outputFile{"plan-out", p.planOut})...)
}

// failed writes the receipt of a publish that failed and returns its error, and
// that of the writing.
func (p *publishFlags) failed(r manifold.Receipt, err error) error {
	if r.Error == "" {
		r.Error = redact.Text(err.Error())
	}
	if unwritten := p.writeReceipt(r); unwritten != nil {
		return errors.Join(err, unwritten)
	}
	return err
}

// record writes the receipt of a publish that prints no result of its own.
func (p *publishFlags) record(r manifold.Receipt, err error) error {
	if err != nil {
		return p.failed(r, err)
	}
	return published(r, func() error { return nil }, p.writeReceipt(r))
}

func (p *publishFlags) writeReceipt(r manifold.Receipt) error {
	if p.receipt == "" {
		return nil
	}
	var b bytes.Buffer
	err := render.JSON(&b, r)
	if err == nil {
		err = writeWhole(p.receipt, b.Bytes())
	}
	if err != nil {
		return fmt.Errorf("the receipt could not be written: %w", err)
	}
	return nil
}

// writePlan writes the plan file, if there is to be one.
func (p *publishFlags) writePlan(made plan.Plan) error {
	if p.planOut == "" {
		return nil
	}
	var b bytes.Buffer
	if err := made.Write(&b); err != nil {
		return err
	}
	return writeWhole(p.planOut, append(b.Bytes(), '\n'))
}
