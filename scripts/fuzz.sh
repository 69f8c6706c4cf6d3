#!/bin/bash
# Runs every fuzz target of the module for a while: fuzz.sh DURATION
set -euo pipefail
cd "$(dirname "$0")/.."
duration=${1:-10s}

for package in $(go list ./...); do
  dir=.${package#github.com/manifold-oci/manifold}
  targets=$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' "$dir"/*_test.go 2>/dev/null | sed 's/^func //' || true)
  for target in $targets; do
    echo "$package $target"
    go test "$package" -run '^$' -fuzz "^$target\$" -fuzztime "$duration"
  done
done
