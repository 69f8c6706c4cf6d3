#!/bin/bash
# Builds today's Docker Engine with its containerd into bin/engines, for the
# stories that need it. They are built in a module of their own, so that go.mod
# has nothing of them. Three minutes on two cores the first time; nothing is done
# when these versions are there.
set -euo pipefail
cd "$(dirname "$0")/.."

dockerd=github.com/moby/moby/v2/cmd/dockerd@v2.0.0-beta.24
containerd=github.com/containerd/containerd/v2/cmd/containerd@v2.4.2
shim=github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2@v2.4.2

out=$PWD/bin/engines
versions="$dockerd $containerd $shim"
[ "$(cat "$out/versions" 2>/dev/null)" != "$versions" ] || exit 0

echo "building today's Docker Engine (minutes, once)"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
go mod init engines 2>/dev/null
go get -tool $versions 2>&1 | { grep -v '^go: \(added\|downloading\) ' || true; }
mkdir -p "$out"
CGO_ENABLED=0 go build -tags no_systemd,exclude_graphdriver_btrfs -o "$out/" tool
echo "$versions" >"$out/versions"
