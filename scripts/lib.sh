# Functions for scripts that start services: source it. What was started is
# stopped again, by its process id, when the script ends.

pids=()

# say prints a line that stands out.
say() { printf '\n== %s\n' "$*" >&2; }

# spawn runs a command in the background, its output in a file: spawn LOG COMMAND...
spawn() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  pids+=($!)
}

stop_all() {
  local pid
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  pids=()
}

# await runs a check until it holds, ten seconds at most: await WHAT LOG COMMAND...
await() {
  local what=$1 log=$2 i
  shift 2
  for ((i = 0; i < 100; i++)); do
    "$@" >/dev/null 2>&1 && return 0
    sleep 0.1
  done
  echo "$what does not answer; its output:" >&2
  cat "$log" >&2
  return 1
}

# answers checks that something listens: answers HOST PORT
answers() { (exec 3<>"/dev/tcp/$1/$2") 2>/dev/null; }

# sockets_in prints a folder for unix sockets, whose paths may not be long.
sockets_in() {
  if ((${#1} < 80)); then echo "$1"; else mktemp -d; fi
}

# start_node runs a buildkitd: start_node NAME PLATFORM STATE SOCKET
start_node() {
  local name=$1 platform=$2 state=$3 socket=$4
  mkdir -p "$state"
  rm -f "$socket"
  spawn "$state/buildkitd.log" bin/buildkitd \
    --root "$state/root" --addr "unix://$socket" \
    --containerd-worker=false --oci-worker=true --oci-worker-platform "$platform"
  await "node $name" "$state/buildkitd.log" test -S "$socket"
}

# need installs a Debian package if a program is missing: need PROGRAM PACKAGE
need() {
  command -v "$1" >/dev/null && return 0
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "$1 is missing: install it (Debian: apt-get install $2) and try again" >&2
    return 1
  fi
  say "installing $2, for $1"
  apt-get update -q >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$2" >&2
}
