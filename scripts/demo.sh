#!/bin/bash
# Builds examples/hello for two platforms on two local nodes, publishes it to a
# local registry under two tags, and looks at the result. "make demo" runs it.
# State, and the build cache with it, is kept in .demo; nothing else is touched.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
export PATH="$PATH:/usr/sbin:/sbin"

host=127.0.0.1 port=5005
registry=$host:$port
state=$PWD/.demo
mkdir -p "$state"
export XDG_STATE_HOME=$state/state DOCKER_CONFIG=$state/docker
sockets=$(sockets_in "$state")
cleanup() {
  stop_all
  [ "$sockets" = "$state" ] || rm -rf "$sockets"
}
trap cleanup EXIT

if [ "$(id -u)" != 0 ]; then
  echo "the local nodes need root: run make demo as root" >&2
  exit 1
fi
need runc runc
if answers "$host" "$port"; then
  echo "$registry is in use: stop what listens there and try again" >&2
  exit 1
fi

say "cross-compiling examples/hello"
examples/hello/build.sh

say "starting a registry on $registry and two nodes"
spawn "$state/registry.log" bin/manifold serve --address "$registry" --dir "$state/registry"
await "the registry" "$state/registry.log" answers "$host" "$port"
start_node amd64 linux/amd64 "$state/amd64" "$sockets/amd64.sock"
start_node arm64 linux/arm64 "$state/arm64" "$sockets/arm64.sock"

run() {
  say "$*"
  "$@"
}
run bin/manifold build \
  --node "linux/amd64=unix://$sockets/amd64.sock" \
  --node "linux/arm64=unix://$sockets/arm64.sock" \
  --platform linux/amd64,linux/arm64 \
  -t "$registry/hello:1" -t "$registry/hello:latest" --push examples/hello
run bin/manifold verify "$registry/hello:1"
run bin/manifold inspect "$registry/hello:1"

say "done; the registry and the nodes are stopped, their state is in .demo"
