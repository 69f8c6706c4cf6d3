#!/bin/bash
# Compares a build that is relayed (--relay: everything goes through manifold)
# with one that its node pushes, for one layer of 1 GB that does not compress, on
# this machine: time, and manifold's resident memory.
#
# The layer is made before anything is timed, and each push goes to a registry
# that was just started, over an empty directory: what is timed is the push and
# nothing else, besides what a build costs of which nothing is new. Runs are taken
# in turn. The layer is gzipped, the default; uncompressed it has the same size.
#
# "make bench" runs it; RUNS sets how often. It needs 5 GB below TMPDIR. It exits
# with 1 when a promise does not hold; a machine that is busy with other things
# breaks the first one, for a relayed push takes half as much work again.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
. scripts/bench_lib.sh

runs=${RUNS:-7}
need runc runc
go build -o "$state/benchkit" scripts/benchkit.go
nothing_of_the_user

say "making a layer of 1 GB"
mkdir "$state/context"
head -c 1G /dev/urandom >"$state/context/layer"
printf 'FROM scratch\nCOPY layer /\n' >"$state/context/Dockerfile"
socket=$(sockets_in "$state")/node.sock
start_node amd64 linux/amd64 "$state/node" "$socket"

# push WAY [FLAG]: prints "milliseconds resident-megabytes"
push() {
  rm -rf "$state/storage-fresh"
  serve fresh
  measured bin/manifold build -q --node "unix://$socket" --platform linux/amd64 --provenance=false \
    --push -t "$host/d:1" "${@:2}" "$state/context" | tee -a "$state/$1"
  stop_last
}

# Of two: the context is sent again in the second build.
push warm >/dev/null
push warm >/dev/null
for ((i = 0; i < runs; i++)); do
  if ((i % 2)); then
    push relayed --relay >/dev/null
    push direct >/dev/null
  else
    push direct >/dev/null
    push relayed --relay >/dev/null
  fi
done

direct=$(median <"$state/direct")
relayed=$(median <"$state/relayed")
most=$(cut -d' ' -f2 "$state/relayed" | sort -n | tail -n 1)
rate=$(awk "BEGIN { printf \"%.2f\", $direct / $relayed }")
say "1 GB in one layer, median of $runs: a push by the node against --relay"
printf 'direct   %6d ms\n' "$direct"
printf 'relayed  %6d ms  %s of the direct rate, %d MB resident at most\n' "$relayed" "$rate" "$most"
promise "at least 0.8 of the direct rate" "$rate >= 0.8"
promise "less than 100 MB resident" "$most < 100"
exit $failed
