package cli

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// TestLimitsHaveARange: a limit that means none, or nothing, is refused with the
// range that there is.
func TestLimitsHaveARange(t *testing.T) {
	for flag, want := range map[string]string{
		"--max-requests=0": "1 to 10000", "--max-requests=-1": "1 to 10000", "--max-requests=10001": "1 to 10000", "--max-requests=1.5": "1 to 10000",
		"--max-rate=0": "0.01 to 1000000", "--max-rate=-1": "0.01 to 1000000", "--max-rate=NaN": "0.01 to 1000000", "--max-rate=1e-300": "0.01 to 1000000",
		"--max-rate=1e-12": "0.01 to 1000000", "--max-rate=Inf": "0.01 to 1000000", "--max-rate=1e7": "0.01 to 1000000",
		"--chunk-size=1ib": "bytes", "--chunk-size=-1": "0 to 1TB", "--chunk-size=2TB": "0 to 1TB",
	} {
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		(&registryFlags{}).add(flags)
		if err := flags.Parse([]string{flag}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flag, err)
		}
	}
	var r registryFlags
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	r.add(flags)
	if err := flags.Parse([]string{"--max-requests=1", "--max-rate=0.01", "--chunk-size=1TiB"}); err != nil || r.maxRequests != 1 || r.maxRate != 0.01 || r.chunkSize != 1<<40 {
		t.Errorf("%+v, %v", r, err)
	}
}
