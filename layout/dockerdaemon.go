package layout

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/manifold-oci/manifold/internal/redact"
	"github.com/manifold-oci/manifold/oci"
	"github.com/manifold-oci/manifold/ref"
	"github.com/opencontainers/go-digest"
)

// defaultEngine is where an engine listens when nobody says otherwise.
const defaultEngine = "unix:///var/run/docker.sock"

var errAddress = errors.New("not an address of an engine")

// Engine says how to reach a Docker Engine. The zero value is the socket on
// this machine.
type Engine struct {
	// Host is unix://PATH or tcp://HOST:PORT, as in DOCKER_HOST.
	Host string
	// CertPath is the folder with ca.pem, cert.pem and key.pem, as in
	// DOCKER_CERT_PATH; empty for a connection without TLS.
	CertPath string
	// Verify compares the engine's certificate with ca.pem, as
	// DOCKER_TLS_VERIFY.
	Verify bool
	// TempDir is where an image is kept while it is read; empty for the
	// system's.
	TempDir string
}

// EngineError reports an image that an engine did not give.
type EngineError struct {
	// Host of the engine, without a login, and the image that it was asked for.
	Host, Image string
	// Status of its answer, 0 when there was none, and what it said.
	Status  int
	Message string
	Cause   error
}

func (e *EngineError) Error() string {
	what := "docker-daemon:" + e.Image + ": "
	switch {
	case e.Cause != nil:
		return what + e.Host + ": " + e.Cause.Error()
	case e.Message != "":
		return what + e.Message
	}
	return what + fmt.Sprintf("%s: unexpected answer %d", e.Host, e.Status)
}

// Unwrap returns the cause.
func (e *EngineError) Unwrap() error { return e.Cause }

// OpenDockerDaemon saves one image of an engine into a file of its own, which
// goes when the archive is closed, and opens that. It is one request; for an ID
// that is not whole, or without sha256:, two more, as Docker reads it as a name
// first. A name without a tag means latest. Errors: [*EngineError], and those of
// [OpenDockerArchive].
func OpenDockerDaemon(ctx context.Context, e Engine, image string) (*DockerArchive, error) {
	if e.Host == "" {
		e.Host = defaultEngine
	}
	client, base, err := e.client()
	if err != nil {
		return nil, &EngineError{Host: redact.Word(e.Host), Image: image, Cause: err}
	}
	defer client.CloseIdleConnections()
	a := asking{engine: e, image: image, client: client, base: base}
	body, err := a.save(ctx)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	f, err := spool(e.TempDir, body)
	if err != nil {
		return nil, a.failed(err)
	}
	d, err := newDockerArchive("docker-daemon:"+image, f)
	if err == nil {
		d.temp = f.Name()
	}
	return d, err
}

// asking is an engine that is being asked for an image.
type asking struct {
	engine Engine
	image  string
	client *http.Client
	base   string
}

func (a asking) failed(err error) error {
	return &EngineError{Host: redact.Word(a.engine.Host), Image: a.image, Cause: redact.Error(err)}
}

func (a asking) get(ctx context.Context, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.base+path, nil)
	if err != nil {
		return nil, a.failed(errAddress) // net/url quotes parts of a password
	}
	resp, err := a.client.Do(req)
	if err != nil {
		return nil, a.failed(withoutURL(err))
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		return nil, &EngineError{Host: redact.Word(a.engine.Host), Image: a.image, Status: resp.StatusCode, Message: message(resp.Body)}
	}
	return resp.Body, nil
}

func savePath(name string) string { return "/images/get?names=" + url.QueryEscape(name) }

// save asks for the image by its name, and if there is none, by its ID.
func (a asking) save(ctx context.Context) (io.ReadCloser, error) {
	body, err := a.get(ctx, savePath(savedName(a.image)))
	if !Absent(err) || imageID(a.image) == "" || fullDigest(a.image) != "" {
		return body, err
	}
	id, found := a.identify(ctx)
	switch {
	case found == nil:
		return a.get(ctx, savePath(id.String()))
	case Absent(found):
		return nil, err
	}
	return nil, found
}

// identify asks for the whole ID that a.image is the beginning of: with that
// itself, an engine would save a repository of the same name with all its tags.
func (a asking) identify(ctx context.Context) (digest.Digest, error) {
	body, err := a.get(ctx, "/images/"+url.PathEscape(a.image)+"/json")
	if err != nil {
		return "", err
	}
	defer body.Close()
	var v struct {
		ID digest.Digest `json:"Id"`
	}
	if err := json.UnmarshalRead(io.LimitReader(body, oci.MaxManifestSize), &v); err != nil {
		return "", a.failed(err)
	}
	if v.ID.Validate() != nil || !strings.HasPrefix(v.ID.Encoded(), imageID(a.image)) {
		return "", &EngineError{Host: redact.Word(a.engine.Host), Image: a.image, Status: http.StatusNotFound, Message: "No such image: " + a.image}
	}
	return v.ID, nil
}

// savedName is the name to ask for: without a tag an engine would save every
// tag of the repository.
func savedName(image string) string {
	if sum := fullDigest(image); sum != "" {
		return sum.String()
	}
	r, err := ref.Parse(image)
	if err != nil {
		return image
	}
	return r.OrLatest().String()
}

// spool writes a stream into a file that nobody else finds: manifest.json comes
// last in it, and layers are read twice.
func spool(dir string, r io.Reader) (*os.File, error) {
	f, err := os.CreateTemp(dir, "manifold-image-*.tar")
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // stays readable where the system allows
	if _, err := io.Copy(f, r); err != nil {
		_ = f.Close()
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return f, err
}

func (e Engine) client() (*http.Client, string, error) {
	proto, address, ok := strings.Cut(e.Host, "://")
	if !ok || address == "" {
		return nil, "", errors.New("want unix://PATH or tcp://HOST:PORT")
	}
	t := &http.Transport{DisableCompression: true}
	client := &http.Client{Transport: t}
	switch proto {
	case "unix":
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", address)
		}
		return client, "http://docker", nil
	case "tcp", "http", "https":
		scheme := "http://"
		if e.CertPath != "" || proto == "https" {
			var err error
			if t.TLSClientConfig, err = e.tls(); err != nil {
				return nil, "", err
			}
			scheme = "https://"
		}
		return client, scheme + strings.TrimSuffix(address, "/"), nil
	}
	return nil, "", fmt.Errorf("%s:// is not supported; use docker save and docker-archive:FILE", proto)
}

func (e Engine) tls() (*tls.Config, error) {
	c := &tls.Config{InsecureSkipVerify: !e.Verify} //nolint:gosec // as the user's DOCKER_TLS_VERIFY says
	if e.CertPath == "" {
		return c, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(e.CertPath, "cert.pem"), filepath.Join(e.CertPath, "key.pem"))
	if err != nil {
		return nil, err
	}
	c.Certificates = []tls.Certificate{pair}
	if !e.Verify {
		return c, nil
	}
	ca, err := os.ReadFile(filepath.Join(e.CertPath, "ca.pem"))
	if err != nil {
		return nil, err
	}
	c.RootCAs = x509.NewCertPool()
	if !c.RootCAs.AppendCertsFromPEM(ca) {
		return nil, errors.New("ca.pem: no certificate in it")
	}
	return c, nil
}

// message reads what an engine says about an error.
func message(r io.Reader) string {
	b, _ := io.ReadAll(io.LimitReader(r, maxMarker))
	var v struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(b, &v) // something else than JSON says nothing
	return v.Message
}

func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
