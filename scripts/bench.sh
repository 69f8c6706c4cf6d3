#!/bin/bash
# Compares manifold with buildx, the one that go.mod requires, on this machine:
#   1. a cached build for two platforms on two local nodes, with push, as a
#      ratio of times;
#   2. the requests that putting an index together costs (create against
#      imagetools create), as the registry's log has them;
#   3. start-up (version), as a ratio of times.
# "make bench" runs it. Ratios are to be read, not absolute times.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
export PATH="$PATH:/usr/sbin:/sbin"

runs=${RUNS:-10}
state=$(mktemp -d)
cleanup() {
  stop_all
  rm -rf "$state"
}
trap cleanup EXIT
need runc runc
need jq jq
need hyperfine hyperfine
export BUILDX_CONFIG=$state/buildx DOCKER_CONFIG=$state/docker
export BUILDX_NO_DEFAULT_ATTESTATIONS=1
mkdir -p "$DOCKER_CONFIG"

say "starting a registry and two nodes"
spawn "$state/address" bin/manifold serve --address 127.0.0.1:0 --dir "$state/registry"
await "the registry" "$state/address" grep -q . "$state/address"
registry=$(head -n 1 "$state/address")
start_node amd64 linux/amd64 "$state/amd64" "$state/amd64.sock"
start_node arm64 linux/arm64 "$state/arm64" "$state/arm64.sock"
bin/buildx create --name bench --driver remote --platform linux/amd64 "unix://$state/amd64.sock" >/dev/null
bin/buildx create --name bench --append --driver remote --platform linux/arm64 "unix://$state/arm64.sock" >/dev/null
examples/hello/build.sh

platforms=linux/amd64,linux/arm64
manifold="bin/manifold build --builder bench --platform $platforms -t $registry/m:1 --push examples/hello"
buildx="bin/buildx build --builder bench --platform $platforms -t $registry/b:1 --push examples/hello"

# ratio FILE: mean of the first command by mean of the second
ratio() { jq -r '"ratio \(.results[0].mean / .results[1].mean * 100 | round / 100)  (\(.results[0].mean * 1000 | round) ms : \(.results[1].mean * 1000 | round) ms)"' "$1"; }
compare() { hyperfine --style none --warmup 2 --runs "$runs" --export-json "$state/$1.json" "$2" "$3" >/dev/null 2>"$state/$1.log" || { cat "$state/$1.log" >&2; return 1; }; }

say "cached build on two nodes, manifold : buildx"
compare build "$manifold" "$buildx"
ratio "$state/build.json"

say "start-up (version), manifold : buildx"
compare version "bin/manifold version" "bin/buildx version"
ratio "$state/version.json"

say "requests of create, by method"
# A registry of its own, whose access log is counted.
CGO_ENABLED=0 go build -trimpath -o bin/registry github.com/distribution/distribution/v3/cmd/registry
cat >"$state/registry.yml" <<YML
version: 0.1
log: {level: info, formatter: json}
storage: {filesystem: {rootdirectory: $state/registry}}
http: {addr: 127.0.0.1:0}
YML
OTEL_TRACES_EXPORTER=none spawn "$state/access" bin/registry serve "$state/registry.yml"
await "the counting registry" "$state/access" grep -q 'listening on' "$state/access"
counted=$(sed -nE 's/.*listening on ([0-9.:]+).*/\1/p' "$state/access" | head -n 1)

# requests NAME COMMAND...: runs it and counts the lines that it added
requests() {
  local name=$1 before
  shift
  before=$(wc -l <"$state/access")
  "$@" >"$state/$name.log" 2>&1 || { cat "$state/$name.log" >&2; return 1; }
  sleep 0.5 # the last line is written after the answer
  tail -n "+$((before + 1))" "$state/access" | grep -oE '"(GET|HEAD|POST|PUT|PATCH|DELETE) /v2/' | sort | uniq -c |
    awk -v name="$name" '{ gsub(/"/, "", $2); text = text " " $2 " " $1; sum += $1 } END { printf "%-9s%d:%s\n", name, sum, text }'
}
requests manifold bin/manifold create -t "$counted/m:2" "$counted/m:1"
requests buildx bin/buildx imagetools create -t "$counted/b:2" "$counted/b:1"
