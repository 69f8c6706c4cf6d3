#!/bin/bash
# Compiles hello for each platform, os/arch, that was named; for the two of the
# demo when none was. The same source makes the same bytes.
set -euo pipefail
cd "$(dirname "$0")"

if (($# == 0)); then set -- linux/amd64 linux/arm64; fi
for platform in "$@"; do
  GOOS=${platform%%/*} GOARCH=${platform#*/}
  CGO_ENABLED=0 GOOS=$GOOS GOARCH=$GOARCH \
    go build -trimpath -buildvcs=false -ldflags '-s -w' -o "dist/${GOOS}_$GOARCH/hello" .
done
