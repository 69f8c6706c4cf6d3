package registry

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Certificates names the places that certificates for registries are kept in.
// The zero value has none.
type Certificates struct {
	// Dirs are folders like Docker's certs.d: in each a folder per host, with
	// its port, that has authorities (*.crt) and client certificates (*.cert
	// beside *.key). The first one that has a folder for a host counts.
	Dirs []string
	// CA are files of authorities in PEM that are trusted for every host,
	// besides those of the system.
	CA []string
	// Cert and Key are files of a client certificate for every host.
	Cert, Key string
}

// CertificateError reports a file of certificates that cannot be used.
type CertificateError struct {
	Path  string
	Cause error
}

func (e *CertificateError) Error() string { return e.Path + ": " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *CertificateError) Unwrap() error { return e.Cause }

// TLS returns a function for Options.TLS. Files are read when a host is first
// asked. Errors are [*CertificateError].
func (c Certificates) TLS() func(host string) (*tls.Config, error) {
	return func(host string) (*tls.Config, error) {
		own, err := c.folder(host)
		if err != nil {
			return nil, err
		}
		authorities := append(own.authorities, c.CA...)
		pairs := own.pairs
		if c.Cert != "" {
			pairs = append(pairs, [2]string{c.Cert, c.Key})
		}
		if len(authorities) == 0 && len(pairs) == 0 {
			return nil, nil
		}
		return config(authorities, pairs)
	}
}

// folder is what is kept for one host.
type folder struct {
	authorities []string
	pairs       [][2]string // certificate, key
}

func (c Certificates) folder(host string) (folder, error) {
	for _, dir := range c.Dirs {
		for _, name := range []string{refHost(host), host} {
			path := filepath.Join(dir, name)
			entries, err := os.ReadDir(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return folder{}, certificateError(path, err)
			}
			return sorted(path, entries)
		}
	}
	return folder{}, nil
}

// sorted tells the files of a folder apart by their ends, as Docker does.
func sorted(dir string, entries []fs.DirEntry) (folder, error) {
	var out folder
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch filepath.Ext(path) {
		case ".crt":
			out.authorities = append(out.authorities, path)
		case ".cert":
			key := strings.TrimSuffix(path, ".cert") + ".key"
			if _, err := os.Stat(key); err != nil {
				return out, certificateError(path, fmt.Errorf("its key %s is missing", filepath.Base(key)))
			}
			out.pairs = append(out.pairs, [2]string{path, key})
		}
	}
	return out, nil
}

func config(authorities []string, pairs [][2]string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(authorities) > 0 {
		pool, err := x509.SystemCertPool()
		if err != nil {
			pool = x509.NewCertPool() // a system without any
		}
		for _, path := range authorities {
			b, err := os.ReadFile(path)
			if err != nil {
				return nil, certificateError(path, err)
			}
			if !pool.AppendCertsFromPEM(b) {
				return nil, certificateError(path, errors.New("has no certificate in PEM"))
			}
		}
		c.RootCAs = pool
	}
	for _, pair := range pairs {
		cert, err := tls.LoadX509KeyPair(pair[0], pair[1])
		if err != nil {
			return nil, certificateError(pair[0], err)
		}
		c.Certificates = append(c.Certificates, cert)
	}
	return c, nil
}

// certificateError takes the path out of errors that have it already.
func certificateError(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return &CertificateError{Path: p.Path, Cause: p.Err}
	}
	return &CertificateError{Path: path, Cause: err}
}
