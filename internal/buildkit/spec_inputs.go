package buildkit

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/platforms"
	"github.com/docker/buildx/build"
	"github.com/docker/buildx/util/buildflags"
	"github.com/docker/buildx/util/dockerutil/dockerconfig"
	"github.com/docker/buildx/util/ocilayout"
	"github.com/docker/buildx/util/osutil"
	"github.com/docker/buildx/util/platformutil"
	"github.com/docker/buildx/util/urlutil"
	"github.com/manifold-oci/manifold/oci"
	"github.com/moby/buildkit/session"
	"github.com/moby/buildkit/session/auth/authprovider"
)

// sourceDateEpoch is passed on as a build argument when it is set
// (reproducible-builds.org/docs/source-date-epoch).
const sourceDateEpoch = "SOURCE_DATE_EPOCH"

func (r specReader) readInputs(s *Spec) error {
	contexts, err := buildflags.ParseContextNames(r.list("build-context"))
	if err != nil {
		return usage("build-context", err)
	}
	s.Options.Inputs = build.Inputs{
		ContextPath:    r.contextPath,
		DockerfilePath: r.str("file"),
		InStream:       build.NewSyncMultiReader(r.cli.In()),
		NamedContexts:  map[string]build.NamedContext{},
	}
	s.Options.Target = r.str("target")
	for name, path := range contexts {
		if err := checkNamedContext(path); err != nil {
			return &UsageError{Flag: "build-context", Value: name + "=" + path, Reason: reason(err)}
		}
		s.Options.Inputs.NamedContexts[name] = build.NamedContext{Path: path}
	}
	return checkContext(r.contextPath, r.str("file"))
}

// checkContext finds out early what buildx would find out on a node.
func checkContext(path, dockerfile string) error {
	switch {
	case path == "":
		return &UsageError{Reason: "the build context is missing: a directory, a URL or -"}
	case path == "-" && dockerfile == "-":
		return &UsageError{Flag: "file", Value: "-", Reason: "standard input cannot be both the context and the Dockerfile"}
	case path == "-":
		return nil
	case osutil.IsLocalDir(path):
		if err := checkReadable(path); err != nil {
			return &UsageError{Value: path, Reason: reason(err)}
		}
		return checkDockerfile(path, dockerfile)
	case urlutil.IsRemoteURL(path):
		if filepath.IsAbs(dockerfile) {
			return checkDockerfile(path, dockerfile)
		}
		return nil
	}
	if _, err := os.Stat(path); err != nil {
		return &UsageError{Value: path, Reason: "build context: " + reason(err)}
	}
	return &UsageError{Value: path, Reason: "build context: not a directory"}
}

// checkDockerfile follows buildx: a Dockerfile given is relative to the working
// directory, and "dockerfile" does where "Dockerfile" is looked for.
func checkDockerfile(context, dockerfile string) error {
	if dockerfile == "-" || urlutil.IsHTTPURL(dockerfile) {
		return nil
	}
	path := dockerfile
	if path == "" {
		path = filepath.Join(context, "Dockerfile")
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) && filepath.Base(path) == "Dockerfile" {
		if lower, lerr := os.Stat(filepath.Join(filepath.Dir(path), "dockerfile")); lerr == nil {
			st, err, path = lower, nil, filepath.Join(filepath.Dir(path), "dockerfile")
		}
	}
	if err == nil && st.IsDir() {
		return &UsageError{Flag: "file", Value: path, Reason: "is a directory"}
	}
	if err == nil {
		err = checkReadable(path)
	}
	if err != nil {
		return &UsageError{Flag: "file", Value: path, Reason: reason(err)}
	}
	return nil
}

func checkNamedContext(path string) error {
	remote := urlutil.IsRemoteURL(path) || strings.HasPrefix(path, "docker-image://") || strings.HasPrefix(path, "target:")
	if _, layout, _ := ocilayout.Parse(path); remote || layout {
		return nil
	}
	st, err := os.Stat(path)
	if err == nil && !st.IsDir() {
		return errors.New("not a directory")
	}
	return err
}

// checkReadable opens what is going to be sent, so that missing permission shows.
func checkReadable(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// reason is the cause without the operation and path, which the error around it
// names already.
func reason(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err.Error()
	}
	return err.Error()
}

func (r specReader) readArguments(s *Spec) (err error) {
	if s.Options.BuildArgs, err = keyValues(r.list("build-arg"), r.env); err != nil {
		return usage("build-arg", err)
	}
	if _, given := s.Options.BuildArgs[sourceDateEpoch]; !given {
		if v, _ := r.env(sourceDateEpoch); v != "" {
			s.Options.BuildArgs[sourceDateEpoch] = v
		}
	}
	none := func(string) (string, bool) { return "", true }
	s.Options.Labels, err = keyValues(r.list("label"), none)
	return usage("label", err)
}

// keyValues reads KEY=VALUE; a KEY alone takes its value from lookup and is left
// out when there is none. Values may be secret and stay out of errors.
func keyValues(in []string, lookup func(string) (string, bool)) (map[string]string, error) {
	out := make(map[string]string, len(in))
	for _, entry := range in {
		k, v, ok := strings.Cut(entry, "=")
		if k == "" {
			return nil, errors.New("empty key, want KEY=VALUE")
		}
		if !ok {
			v, ok = lookup(k)
		}
		if ok {
			out[k] = v
		}
	}
	return out, nil
}

func (r specReader) readPlatforms(s *Spec) error {
	seen := map[string]bool{}
	for _, given := range r.list("platform") {
		for _, name := range strings.Split(given, ",") {
			p, err := parsePlatform(strings.TrimSpace(name))
			if err != nil {
				return &UsageError{Flag: "platform", Value: name, Reason: err.Reason}
			}
			if key := oci.PlatformKey(p); !seen[key] {
				seen[key] = true
				s.Platforms = append(s.Platforms, p)
			}
		}
	}
	return nil
}

// parsePlatform reads a platform; the short forms that buildx knows (local, an
// architecture or an os alone) mean what buildx makes of them on this machine.
func parsePlatform(name string) (oci.Platform, *oci.PlatformError) {
	if strings.EqualFold(name, "local") {
		return oci.NormalizePlatform(platforms.DefaultSpec()), nil
	}
	p, err := oci.ParsePlatform(name)
	if err == nil {
		return p, nil
	}
	if short, serr := platformutil.Parse([]string{name}); serr == nil && len(short) == 1 && name != "" {
		return oci.NormalizePlatform(short[0]), nil
	}
	var pe *oci.PlatformError
	if !errors.As(err, &pe) {
		pe = &oci.PlatformError{Platform: name, Reason: err.Error()}
	}
	return oci.Platform{}, pe
}

// readSession sets up what nodes may ask of this machine: registry credentials,
// secrets and ssh keys.
func (r specReader) readSession(s *Spec) error {
	auth := authprovider.NewDockerAuthProvider(authprovider.DockerAuthProviderConfig{
		AuthConfigProvider: dockerconfig.LoadAuthConfig(r.cli),
	})
	specs, err := buildflags.ParseSecretSpecs(r.list("secret"))
	if err != nil {
		return usage("secret", err)
	}
	secrets, err := build.CreateSecrets(specs)
	if err != nil {
		return usage("secret", err)
	}
	keys, err := buildflags.ParseSSHSpecs(r.list("ssh"))
	if err != nil {
		return usage("ssh", err)
	}
	if len(keys) == 0 && buildflags.IsGitSSH(r.contextPath) {
		keys = append(keys, &buildflags.SSH{ID: "default"})
	}
	ssh, err := build.CreateSSH(keys)
	if err != nil {
		return usage("ssh", err)
	}
	s.Options.Session = []session.Attachable{auth, secrets, ssh}
	return nil
}
