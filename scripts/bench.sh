#!/bin/bash
# Compares manifold with buildx, the one that go.mod requires, on this machine
# and in one run:
#   1. builds for two platforms on two local nodes, with push: cached and not, with
#      provenance and without;
#   2. the requests that an index of eight images costs (create against
#      imagetools create), as a registry's access log has them;
#   3. start-up (version).
# "make bench" runs it; RUNS sets how often. Times are medians of runs taken in
# turn, so that what else the machine does falls on both. Ratios are to be read,
# not absolute times.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/bench_lib.sh

runs=${RUNS:-20}
need runc runc
export BUILDX_CONFIG=$state/buildx DOCKER_CONFIG=$state/docker
mkdir -p "$DOCKER_CONFIG"

say "starting two registries and two nodes"
spawn "$state/address" bin/manifold serve --address 127.0.0.1:0 --dir "$state/registry"
await "the registry" "$state/address" grep -q . "$state/address"
registry=$(head -n 1 "$state/address")
# Of the same storage, with an access log.
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
start_node amd64 linux/amd64 "$state/amd64" "$state/amd64.sock"
start_node arm64 linux/arm64 "$state/arm64" "$state/arm64.sock"
bin/buildx create --name bench --driver remote --platform linux/amd64 "unix://$state/amd64.sock" >/dev/null
bin/buildx create --name bench --append --driver remote --platform linux/arm64 "unix://$state/arm64.sock" >/dev/null
examples/hello/build.sh

row() { printf '%-46s %10s %10s %8s\n' "$@"; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.2f", a / b }'; }

# timed FILE COMMAND...: adds the milliseconds of a run to a file
timed() {
  local file=$1 from=${EPOCHREALTIME/./}
  shift
  "$@" >"$state/out" 2>&1 || { cat "$state/out" >&2; return 1; }
  echo $(((${EPOCHREALTIME/./} - from) / 1000)) >>"$file"
}

# compare NAME A B: runs two functions in turn, with the number of the run; the
# first three times of each do not count
compare() {
  local name=$1 a=$2 b=$3 i
  rm -f "$state/a" "$state/b"
  for ((i = 0; i < runs + 3; i++)); do
    ((i == 3)) && rm -f "$state/a" "$state/b"
    if ((i % 2)); then
      timed "$state/a" "$a" "$i" && timed "$state/b" "$b" "$i"
    else
      timed "$state/b" "$b" "$i" && timed "$state/a" "$a" "$i"
    fi
  done
  row "$name" "$(median <"$state/a") ms" "$(median <"$state/b") ms" "$(ratio "$(median <"$state/a")" "$(median <"$state/b")")"
}

on_both="--builder bench --platform linux/amd64,linux/arm64 --push"
manifold_same() { bin/manifold build $on_both --provenance=false -t "$registry/m:1" examples/hello; }
buildx_same() { bin/buildx build $on_both --provenance=false -t "$registry/b:1" examples/hello; }
manifold_fresh() { bin/manifold build $on_both --provenance=false -t "$registry/m$1:1" examples/hello; }
buildx_fresh() { bin/buildx build $on_both --provenance=false -t "$registry/b$1:1" examples/hello; }
manifold_attested() { bin/manifold build $on_both -t "$registry/ma$1:1" examples/hello; }
buildx_attested() { bin/buildx build $on_both -t "$registry/ba$1:1" examples/hello; }
manifold_uncached() { bin/manifold build $on_both --no-cache --provenance=false -t "$registry/mu$1:1" examples/hello; }
buildx_uncached() { bin/buildx build $on_both --no-cache --provenance=false -t "$registry/bu$1:1" examples/hello; }
manifold_uncached_attested() { bin/manifold build $on_both --no-cache -t "$registry/mua$1:1" examples/hello; }
buildx_uncached_attested() { bin/buildx build $on_both --no-cache -t "$registry/bua$1:1" examples/hello; }
manifold_version() { bin/manifold version; }
buildx_version() { bin/buildx version; }

# requests NAME COMMAND...: runs it and prints the number of requests it made
requests() {
  local name=$1 before
  shift
  before=$(wc -l <"$state/access")
  "$@" >"$state/$name.log" 2>&1 || { cat "$state/$name.log" >&2; return 1; }
  sleep 0.5 # the last line is written after the answer
  tail -n "+$((before + 1))" "$state/access" | grep -cE '"(GET|HEAD|POST|PUT|PATCH|DELETE) /v2/'
}

# Eight images of one repository.
eight=()
for platform in linux/386 linux/amd64 linux/arm/v6 linux/arm/v7 linux/arm64 linux/ppc64le linux/riscv64 linux/s390x; do
  tag=${platform//\//-}
  printf 'FROM scratch\nCOPY dist /\n' |
    bin/manifold build -q --node "unix://$state/amd64.sock" --allow-emulation --platform "$platform" --provenance=false \
      -t "$registry/eight:$tag" --push -f - examples/hello >/dev/null
  eight+=("$counted/eight:$tag")
done

say "manifold against buildx"
row "" manifold buildx ratio
compare "cached build, nothing new to publish" manifold_same buildx_same
compare "cached build, published to a new repository" manifold_fresh buildx_fresh
compare "the same with provenance" manifold_attested buildx_attested
compare "uncached build, published to a new repository" manifold_uncached buildx_uncached
compare "the same with provenance" manifold_uncached_attested buildx_uncached_attested
compare "start-up (version)" manifold_version buildx_version
a=$(requests manifold bin/manifold create -t "$counted/eight:m" "${eight[@]}")
b=$(requests buildx bin/buildx imagetools create -t "$counted/eight:b" "${eight[@]}")
row "requests of create, eight sources" "$a" "$b" "$(ratio "$a" "$b")"
