package buildkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/docker/buildx/builder"
	"github.com/docker/buildx/driver"
	"github.com/docker/buildx/policy"
	"github.com/docker/buildx/store"
	"github.com/docker/buildx/util/confutil"
	"github.com/docker/buildx/util/dockerutil"
	"github.com/docker/buildx/util/dockerutil/dockerconfig"
	"github.com/docker/cli/cli/command"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/report"
)

// defaultTimeout is how long a node may take to answer, the time that buildx
// gives a remote one.
const defaultTimeout = 20 * time.Second

// NodeOptions say which nodes to use. The zero value takes the user's current
// buildx instance, or Docker Engine.
type NodeOptions struct {
	// DockerCLI has the user's configuration; nil reads it ([NewDockerCLI]).
	DockerCLI command.Cli
	// Nodes are used and nothing else, if there are any.
	Nodes []NodeFlag
	// Builder names a buildx instance or a Docker context.
	Builder string
	// Local starts a buildkitd and returns its endpoint. It is called only
	// when no nodes were named, no instance is selected and no engine answers.
	// Nil: that is an error.
	Local func(context.Context) (endpoint string, err error)
	// Timeout is how long a node may take to answer; zero is 20 seconds. The
	// boot of a container or pod that is not running is not counted.
	Timeout time.Duration
	// TempDir is where blobs over a megabyte are kept until Close; empty is
	// the system's.
	TempDir string
	// NoDefaultAttestations leaves provenance out unless it is asked for
	// (BUILDX_NO_DEFAULT_ATTESTATIONS).
	NoDefaultAttestations bool
	// Report gets warnings.
	Report report.Sink
}

// Nodes are the machines that builds run on. Close them when the images that
// they built are published: until then the content of those may be here.
type Nodes struct {
	name, driver string
	options      NodeOptions
	config       *confutil.Config
	docker       *dockerutil.Client
	machines     []*machine

	mu     sync.Mutex
	closes []func() error
}

// OpenNodes finds the nodes: those named by flag; else the buildx instance
// named; else the instance that is selected; else Docker Engine of the current
// context if it answers; else a local buildkitd. Nodes are not contacted, but
// for that engine. Errors are of the user's configuration, buildx's words.
func OpenNodes(ctx context.Context, o NodeOptions) (*Nodes, error) {
	if o.Timeout == 0 {
		o.Timeout = defaultTimeout
	}
	if o.DockerCLI == nil {
		cli, err := NewDockerCLI(nil, nil, nil)
		if err != nil {
			return nil, err
		}
		o.DockerCLI = cli
	}
	n := &Nodes{options: o, config: confutil.NewConfig(o.DockerCLI), docker: dockerutil.NewClient(o.DockerCLI)}
	if len(o.Nodes) > 0 {
		return n, n.openFlags(ctx, "nodes", o.Nodes)
	}
	return n, n.openBuilder(ctx)
}

// Name and driver of what the builds run on, as buildx shows them.
func (n *Nodes) Name() (builder, driver string) { return n.name, n.driver }

// Close disconnects and removes what was kept on disk.
func (n *Nodes) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	var errs []error
	for _, f := range n.closes {
		errs = append(errs, f())
	}
	n.closes = nil
	return errors.Join(errs...)
}

func (n *Nodes) onClose(f func() error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closes = append(n.closes, f)
}

// openFlags makes nodes of buildx's remote driver, without an instance.
func (n *Nodes) openFlags(ctx context.Context, name string, flags []NodeFlag) error {
	factory, err := driver.GetFactory("remote", true)
	if err != nil {
		return err
	}
	n.name, n.driver = name, factory.Name()
	cli := n.options.DockerCLI
	auth := dockerconfig.LoadAuthConfig(cli)
	for i, f := range flags {
		id := fmt.Sprintf("%s%d", name, i)
		handle, err := driver.GetDriver(ctx, factory, driver.InitConfig{
			Name: driver.BuilderName(id), EndpointAddr: f.Endpoint, ContextStore: cli.ContextStore(),
			DriverOpts: f.TLS, Auth: auth, Platforms: f.Platforms,
		})
		if err != nil {
			return &NodeFlagError{Value: redact.Word(f.Endpoint), Reason: redact.Text(err.Error())}
		}
		n.machines = append(n.machines, &machine{name: redact.Word(f.Endpoint), endpoint: redact.Word(f.Endpoint), Node: builder.Node{
			Node:    store.Node{Name: id, Endpoint: f.Endpoint, Platforms: f.Platforms, DriverOpts: f.TLS},
			Builder: name, Driver: handle, Platforms: f.Platforms, ProxyConfig: proxies(cli),
		}})
	}
	return nil
}

// proxies are the build arguments that the user's configuration sets for every
// build, in the spelling that buildx passes on.
func proxies(cli command.Cli) map[string]string {
	out := map[string]string{}
	for k, v := range cli.ConfigFile().ParseProxyConfig("", nil) {
		if v != nil && k == strings.ToUpper(k) && k != "ALL_PROXY" {
			out[k] = *v
		}
	}
	return out
}

// openBuilder loads a buildx instance, any driver, or the engine of a context.
func (n *Nodes) openBuilder(ctx context.Context) error {
	b, err := builder.New(n.options.DockerCLI, builder.WithName(n.options.Builder))
	if err != nil {
		return err
	}
	timed, cancel := context.WithTimeout(ctx, n.options.Timeout)
	defer cancel()
	nodes, err := b.LoadNodes(timed, builder.WithImageVerifier(policy.DefaultImageVerifier(n.config)))
	if err == nil {
		n.name, n.driver = b.Name, b.Driver
		n.addBuilder(nodes)
		return nil
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if n.options.Builder == "" && b.DockerContext && n.options.Local != nil {
		return n.openLocal(ctx)
	}
	return err
}

func (n *Nodes) addBuilder(nodes []builder.Node) {
	for _, node := range nodes {
		n.machines = append(n.machines, &machine{name: node.Name, endpoint: redact.Word(node.Endpoint), Node: node})
	}
}

func (n *Nodes) openLocal(ctx context.Context) error {
	endpoint, err := n.options.Local(ctx)
	if err != nil {
		return err
	}
	if err := n.openFlags(ctx, "local", []NodeFlag{{Endpoint: endpoint}}); err != nil {
		return err
	}
	n.machines[0].name = "local"
	return nil
}
