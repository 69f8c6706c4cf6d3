package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/manifold-oci/manifold/internal/buildkit"
	"github.com/manifold-oci/manifold/internal/cli/render"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/spf13/cobra"
)

func newNode(h Host) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Look at the nodes that builds run on",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usage("unknown command %q for %q", args[0], cmd.CommandPath())
			}
			return cmd.Help()
		},
	}
	ls := newNodeLs(h)
	ls.Long += "\n" + exitHelp
	cmd.AddCommand(ls)
	return cmd
}

type nodeLsOptions struct {
	nodes      []string
	builder    string
	timeout    time.Duration
	registries []string
	plainHTTP  []string
	json       bool
}

func newNodeLs(h Host) *cobra.Command {
	var o nodeLsOptions
	cmd := &cobra.Command{
		Use:   "ls [OPTIONS]",
		Short: "List nodes: platforms, driver, BuildKit version, and whether they reach a registry",
		Long: `List the nodes that a build would run on, those of --node, or of the buildx builder
named or selected, or Docker Engine: the platforms of their own processor and
those that they emulate, the driver, BuildKit's version, and how many builds are
under way. With --registry each node fetches /v2/ of that host.

Exit code 1 means that a node does not answer or does not reach a registry.`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error { return runNodeLs(cmd.Context(), h, o) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.nodes, "node", nil, "Node, `PLATFORM[,PLATFORM]=ENDPOINT`, as for build")
	f.StringVar(&o.builder, "builder", "", "`Name` of a buildx builder")
	f.DurationVar(&o.timeout, "node-timeout", 20*time.Second, "How long a node may take to answer")
	f.StringSliceVar(&o.registries, "registry", nil, "Registry `hosts` that the nodes are to reach")
	f.StringSliceVar(&o.plainHTTP, "plain-http", nil, "Registry `hosts` to speak to in plain HTTP; loopback needs no flag")
	f.BoolVar(&o.json, "json", false, "Print the result as one JSON document")
	return cmd
}

func runNodeLs(ctx context.Context, h Host, o nodeLsOptions) error {
	flags, err := nodeFlags(o.nodes)
	if err != nil {
		return err
	}
	urls, err := o.urls()
	if err != nil {
		return err
	}
	nodes, err := buildkit.OpenNodes(ctx, buildkit.NodeOptions{
		Nodes: flags, Builder: o.builder, Timeout: o.timeout, Report: warnings(h),
		Local: func(context.Context) (string, error) {
			return "", errors.New("no node is named and no Docker Engine answers: a build would start a buildkitd here and stop it again")
		},
	})
	if err != nil {
		return err
	}
	defer nodes.Close()
	states := nodes.States(ctx, urls)
	if err := printNodes(h, states, o.json); err != nil {
		return err
	}
	return troubled(states)
}

// urls are what the nodes fetch of each registry.
func (o nodeLsOptions) urls() ([]string, error) {
	var out []string
	for _, host := range o.registries {
		if _, err := ref.Parse(host + "/x"); err != nil {
			return nil, usage("--registry %q: %w", redact.Word(host), err)
		}
		scheme := "https"
		for _, plain := range o.plainHTTP {
			if plain == host {
				scheme = "http"
			}
		}
		if name, _, _ := strings.Cut(host, ":"); name == "localhost" || strings.HasPrefix(name, "127.") {
			scheme = "http"
		}
		out = append(out, scheme+"://"+host+"/v2/")
	}
	return out, nil
}

// nodeDocument is one node in the JSON document.
type nodeDocument struct {
	Name       string            `json:"name"`
	Endpoint   string            `json:"endpoint"`
	Driver     string            `json:"driver,omitempty"`
	Version    string            `json:"version,omitempty"`
	Declared   []string          `json:"declared,omitempty"`
	Native     []string          `json:"native,omitempty"`
	Emulated   []string          `json:"emulated,omitempty"`
	Busy       int               `json:"busy"`
	Error      string            `json:"error,omitempty"`
	Registries map[string]string `json:"registries,omitempty"`
}

func printNodes(h Host, states []buildkit.NodeState, asJSON bool) error {
	if asJSON {
		docs := []nodeDocument{}
		for _, s := range states {
			docs = append(docs, document(s))
		}
		return render.JSON(h.Out, docs)
	}
	w := tabwriter.NewWriter(h.Out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "NODE\tDRIVER\tBUILDKIT\tBUSY\tPLATFORMS\tEMULATED\tSTATE")
	for _, s := range states {
		d := document(s)
		shown := d.Native
		if len(d.Declared) > 0 {
			shown = d.Declared
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", d.Name, dash(d.Driver), dash(d.Version), d.Busy,
			dash(strings.Join(shown, ",")), dash(strings.Join(d.Emulated, ",")), stateOf(s))
	}
	return w.Flush()
}

func document(s buildkit.NodeState) nodeDocument {
	d := nodeDocument{
		Name: s.Name, Endpoint: s.Endpoint, Driver: s.Driver, Version: s.Version, Busy: s.Busy,
		Declared: names(s.Declared), Native: names(s.Native), Emulated: names(s.Emulated),
	}
	if s.Err != nil {
		d.Error = s.Err.Error()
	}
	for _, r := range s.Registries {
		if d.Registries == nil {
			d.Registries = map[string]string{}
		}
		d.Registries[r.URL] = "reached"
		if r.Err != nil {
			d.Registries[r.URL] = r.Err.Error()
		}
	}
	return d
}

func stateOf(s buildkit.NodeState) string {
	if s.Err != nil {
		return s.Err.Error()
	}
	parts := []string{"answers"}
	for _, r := range s.Registries {
		if r.Err != nil {
			parts = append(parts, "does not reach "+r.URL+": "+r.Err.Error())
		} else {
			parts = append(parts, "reaches "+r.URL)
		}
	}
	return strings.Join(parts, "; ")
}

// troubled is an error when something in the list is.
func troubled(states []buildkit.NodeState) error {
	n := 0
	for _, s := range states {
		bad := s.Err != nil
		for _, r := range s.Registries {
			bad = bad || r.Err != nil
		}
		if bad {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("nodes: %d of %d do not answer or do not reach a registry", n, len(states))
}

func names(ps []oci.Platform) []string {
	var out []string
	for _, p := range ps {
		out = append(out, oci.FormatPlatform(p))
	}
	return out
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// nodeFlags reads --node.
func nodeFlags(values []string) ([]buildkit.NodeFlag, error) {
	out := make([]buildkit.NodeFlag, len(values))
	for i, s := range values {
		var err error
		if out[i], err = buildkit.ParseNodeFlag(s); err != nil {
			return nil, &exitError{code: ExitUsage, err: err}
		}
	}
	return out, nil
}
