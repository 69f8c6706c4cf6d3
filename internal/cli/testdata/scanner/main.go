// Command scanner speaks BuildKit's SBOM scanning protocol
// (docs/attestations/sbom-protocol.md there): it lists the files of the image
// as packages of an SPDX document in an in-toto statement.
package main

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

type statement struct {
	Type          string   `json:"_type"`
	PredicateType string   `json:"predicateType"`
	Predicate     document `json:"predicate"`
}

type document struct {
	SPDXVersion string `json:"spdxVersion"`
	ID          string `json:"SPDXID"`
	Name        string `json:"name"`
	Comment     string `json:"comment"`
	Files       []file `json:"files"`
}

type file struct {
	ID   string `json:"SPDXID"`
	Name string `json:"fileName"`
}

func main() {
	if err := scan(os.Getenv("BUILDKIT_SCAN_SOURCE"), os.Getenv("BUILDKIT_SCAN_DESTINATION")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func scan(source, destination string) error {
	d := document{SPDXVersion: "SPDX-2.3", ID: "SPDXRef-DOCUMENT", Name: filepath.Base(source), Comment: "scanned on " + runtime.GOARCH}
	err := filepath.WalkDir(source, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(source, path)
		d.Files = append(d.Files, file{ID: fmt.Sprintf("SPDXRef-File-%d", len(d.Files)), Name: "/" + name})
		return err
	})
	if err != nil {
		return err
	}
	b, err := json.Marshal(statement{"https://in-toto.io/Statement/v0.1", "https://spdx.dev/Document", d})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(destination, filepath.Base(source)+".spdx.json"), b, 0o644)
}
