package registry_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	mathbig "math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/manifold-oci/manifold/internal/registrytest"
	"github.com/manifold-oci/manifold/registry"
)

func writeFile(t *testing.T, dir, name string, b []byte) string {
	t.Helper()
	path := filepath.Join(dir, name)
	noError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	noError(t, os.WriteFile(path, b, 0o600))
	return path
}

func TestOwnAuthorityIsTrusted(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TLS())
	r.Push("d/x", "1", image(t))
	dir := t.TempDir()
	ca := writeFile(t, dir, "ca.pem", r.CA())
	certsd := filepath.Join(dir, "certs.d")
	writeFile(t, certsd, r.Host+"/ca.crt", r.CA())
	for name, c := range map[string]registry.Certificates{
		"flag":    {CA: []string{ca}},
		"certs.d": {Dirs: []string{filepath.Join(dir, "none"), certsd}},
	} {
		_, err := repo(t, r.Host, "d/x", registry.Options{TLS: c.TLS()}).Manifest(t.Context(), "1")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := registry.Certificates{Dirs: []string{certsd}}
	s := registrytest.Distribution(t, registrytest.TLS())
	if _, err := repo(t, s.Host, "d/x", registry.Options{TLS: other.TLS()}).Manifest(t.Context(), "1"); err != nil && registry.Absent(err) {
		t.Errorf("one host's authority is trusted for another: %v", err)
	}
}

// clientPair makes a client certificate that signs itself.
func clientPair(t *testing.T) (cert, key []byte, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	noError(t, err)
	template := &x509.Certificate{
		SerialNumber: mathbig.NewInt(1), Subject: pkix.Name{CommonName: "client"}, NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	noError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	noError(t, err)
	parsed, err := x509.ParseCertificate(der)
	noError(t, err)
	pool = x509.NewCertPool()
	pool.AddCert(parsed)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), pool
}

func TestClientCertificateIsShown(t *testing.T) {
	cert, key, pool := clientPair(t)
	var proto string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		proto = q.Proto
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	host := s.Listener.Addr().String()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	dir := t.TempDir()
	writeFile(t, dir, host+"/ca.crt", ca)
	if _, err := repo(t, host, "d/x", registry.Options{TLS: registry.Certificates{Dirs: []string{dir}}.TLS()}).Manifest(t.Context(), "1"); err == nil || registry.Absent(err) {
		t.Errorf("without a client certificate: %v", err)
	}
	writeFile(t, dir, host+"/client.cert", cert)
	_, err := repo(t, host, "d/x", registry.Options{TLS: registry.Certificates{Dirs: []string{dir}}.TLS()}).Manifest(t.Context(), "1")
	var missing *registry.CertificateError
	if !errors.As(err, &missing) || !strings.Contains(err.Error(), "client.key is missing") {
		t.Errorf("without the key: %v", err)
	}
	writeFile(t, dir, host+"/client.key", key)
	flags := registry.Certificates{
		CA: []string{filepath.Join(dir, host, "ca.crt")}, Cert: filepath.Join(dir, host, "client.cert"), Key: filepath.Join(dir, host, "client.key"),
	}
	for name, c := range map[string]registry.Certificates{"certs.d": {Dirs: []string{dir}}, "flags": flags} {
		if _, err := repo(t, host, "d/x", registry.Options{TLS: c.TLS()}).Manifest(t.Context(), "1"); !registry.Absent(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if proto != "HTTP/2.0" {
		t.Errorf("spoke %s", proto)
	}
}

func TestCertificatesThatCannotBeUsedAreNamed(t *testing.T) {
	r := registrytest.Distribution(t, registrytest.TLS())
	dir := t.TempDir()
	empty := writeFile(t, dir, "empty.crt", []byte("nothing"))
	for name, c := range map[string]registry.Certificates{
		"no PEM":  {CA: []string{empty}},
		"missing": {CA: []string{filepath.Join(dir, "missing.crt")}},
		"no pair": {Cert: empty, Key: empty},
	} {
		_, err := repo(t, r.Host, "d/x", registry.Options{TLS: c.TLS()}).Manifest(t.Context(), "1")
		var e *registry.CertificateError
		if !errors.As(err, &e) || !strings.HasPrefix(e.Path, dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHTTP2IsSpokenWhereItIsOffered(t *testing.T) {
	var protos []string
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		protos = append(protos, q.Proto)
		http.Error(w, `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`, http.StatusNotFound)
	}))
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	host := s.Listener.Addr().String()
	if _, err := repo(t, host, "d/x", registry.Options{Insecure: []string{host}}).Manifest(t.Context(), "1"); !registry.Absent(err) {
		t.Error(err)
	}
	if len(protos) != 1 || protos[0] != "HTTP/2.0" {
		t.Errorf("spoke %v", protos)
	}
}
