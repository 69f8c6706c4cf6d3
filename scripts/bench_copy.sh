#!/bin/bash
# Compares copying with crane, regctl, oras, skopeo and buildx, on this machine,
# each to a registry that was just started (CNCF Distribution):
#   1. an index of eight images of six layers, with 25 ms before every request at
#      source and destination: requests at the destination, time, as a ratio to
#      manifold's;
#   2. the same across two repositories of one registry: bytes of blobs sent;
#   3. one image of two layers of 600 MB: time and resident memory.
# "make bench" runs it. Ratios are to be read, not absolute times. It exits with 1
# when a promise of the documentation does not hold.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/bench_lib.sh

runs=${RUNS:-5}
regctl_version=v0.11.7
oras_version=v1.3.6
need skopeo skopeo

# Tools that are modules of their own, built once.
build_tool() { # build_tool PROGRAM PACKAGE VERSION
  [ -x "bin/$1" ] && return 0
  say "building $1 $3"
  local module=$state/module-$1 out=$PWD/bin/$1
  mkdir -p "$module"
  (cd "$module" && go mod init bench && GOFLAGS=-mod=mod go get "$2@$3" && GOFLAGS=-mod=mod CGO_ENABLED=0 go build -trimpath -o "$out" "$2") >"$module/log" 2>&1 ||
    { cat "$module/log" >&2; return 1; }
}
build_tool regctl github.com/regclient/regclient/cmd/regctl $regctl_version
build_tool oras oras.land/oras/cmd/oras $oras_version
[ -x bin/crane ] || CGO_ENABLED=0 go build -trimpath -o bin/crane github.com/google/go-containerregistry/cmd/crane
[ -x bin/buildx ] || CGO_ENABLED=0 go build -trimpath -o bin/buildx github.com/docker/buildx/cmd/buildx
go build -o "$state/benchkit" scripts/benchkit.go
nothing_of_the_user

# slow HOST: puts 25 ms before a registry; sets host.
slow() {
  local log
  log=$(mktemp -p "$state")
  spawn "$log" "$state/benchkit" proxy "http://$1" 25
  await "the proxy" "$log" grep -q : "$log"
  host=$(head -n 1 "$log")
}

copy_with() { # copy_with TOOL SOURCE DESTINATION
  case $1 in
  manifold) echo bin/manifold copy -q "$2" "$3" ;;
  crane) echo bin/crane copy --insecure "$2" "$3" ;;
  regctl) echo bin/regctl --host "reg=${2%%/*},tls=disabled" --host "reg=${3%%/*},tls=disabled" image copy "$2" "$3" ;;
  oras) echo bin/oras cp --from-plain-http --to-plain-http "$2" "$3" ;;
  skopeo) echo skopeo copy --insecure-policy --all --src-tls-verify=false --dest-tls-verify=false "docker://$2" "docker://$3" ;;
  buildx) echo bin/buildx imagetools create --progress=none -t "$3" "$2" ;;
  esac
}

# measure TOOL SOURCE DESTINATION: prints "milliseconds resident-megabytes".
# shellcheck disable=SC2046
measure() { measured $(copy_with "$@"); }

say "making images"
"$state/benchkit" images "$state/images"
serve source
source=$host
bin/manifold copy -q "oci:$state/images:8x6" "$source/s:1" >/dev/null
bin/manifold copy -q "oci:$state/images:big" "$source/big:1" >/dev/null
rm -rf "$state/images"
slow "$source"
slow_source=$host

tools="manifold crane regctl oras skopeo buildx"
declare -A requests took sent big memory
say "8 images of 6 layers, 25 ms before every request: requests at the destination, median time of $runs"
for ((i = 0; i < runs; i++)); do
  for tool in $tools; do # in turn, so that other work on this machine hits all
    rm -rf "$state/storage-fresh"
    serve fresh
    slow "$host"
    result=$(measure "$tool" "$slow_source/s:1" "$host/d:1")
    echo "${result% *}" >>"$state/times-$tool"
    read -r n _ < <(curl -sf "http://$host/-/count")
    requests[$tool]=$n
    stop_last
    stop_last
  done
done
for tool in $tools; do
  took[$tool]=$(median <"$state/times-$tool")
  printf '%-9s %4d requests  %5d ms  ratio %s\n' "$tool" "${requests[$tool]}" "${took[$tool]}" \
    "$(awk "BEGIN { printf \"%.2f\", ${took[$tool]} / ${took[manifold]} }")"
done
promise "at most 118 requests" "${requests[manifold]} <= 118"
promise "at most half of crane's time" "${took[manifold]} * 2 <= ${took[crane]}"

say "the same across repositories of one registry: bytes of blobs sent"
for tool in $tools; do
  curl -sf "http://$slow_source/-/count" >/dev/null
  measure "$tool" "$slow_source/s:1" "$slow_source/for-$tool:1" >/dev/null
  read -r _ n < <(curl -sf "http://$slow_source/-/count")
  sent[$tool]=$n
  printf '%-9s %8d bytes\n' "$tool" "$n"
done
promise "no blob bytes" "${sent[manifold]} == 0"

say "1.2 GB in two layers: the best time of 3, resident memory"
fastest=999999
for ((i = 0; i < 3; i++)); do
  for tool in $tools; do
    rm -rf "$state/storage-fresh"
    serve fresh
    read -r t m < <(measure "$tool" "$source/big:1" "$host/d:1")
    stop_last
    [ "${big[$tool]:-999999}" -le "$t" ] || big[$tool]=$t
    [ "${memory[$tool]:-0}" -ge "$m" ] || memory[$tool]=$m
  done
done
rm -rf "$state/storage-fresh"
for tool in $tools; do
  [ "$tool" = manifold ] || [ "$fastest" -le "${big[$tool]}" ] || fastest=${big[$tool]}
  printf '%-9s %6d ms  ratio %s  %4d MB\n' "$tool" "${big[$tool]}" \
    "$(awk "BEGIN { printf \"%.2f\", ${big[$tool]} / ${big[manifold]} }")" "${memory[$tool]}"
done
promise "no slower than the fastest of them (5% of noise allowed)" "${big[manifold]} <= $fastest * 1.05"
promise "less than 64 MB resident" "${memory[manifold]} < 64"
exit $failed
