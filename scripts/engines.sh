#!/bin/bash
# Builds today's Docker Engine with its containerd into bin/engines, as modules
# in a module of their own: go.mod has nothing of them. "make engines" runs it and
# then the stories that need it. A few minutes the first time.
set -euo pipefail
cd "$(dirname "$0")/.."

dockerd=github.com/moby/moby/v2@v2.0.0-beta.24
containerd=github.com/containerd/containerd/v2@v2.4.2

out=$PWD/bin/engines
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >go.mod <<MOD
module engines

go 1.26.8
MOD
cat >tools.go <<'GO'
//go:build tools

package engines

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/moby/moby/v2/cmd/dockerd"
)
GO
go get "$dockerd" "$containerd"
go mod tidy
CGO_ENABLED=0 go build -tags no_systemd,exclude_graphdriver_btrfs -o "$out/" \
  github.com/containerd/containerd/v2/cmd/containerd \
  github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2 \
  github.com/moby/moby/v2/cmd/dockerd
