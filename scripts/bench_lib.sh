# What the measuring scripts share, over lib.sh: source it after that. They work in
# the directory $state, which is removed at the end with all that was started.
export PATH="$PWD/bin:$PATH:/usr/sbin:/sbin"
state=$(mktemp -d)
cleanup() {
  stop_all
  rm -rf "$state"
}
trap cleanup EXIT

# serve NAME: starts a registry (CNCF Distribution) over a directory of its own;
# sets host.
serve() {
  local log
  [ -x bin/registry ] || CGO_ENABLED=0 go build -trimpath -o bin/registry github.com/distribution/distribution/v3/cmd/registry
  log=$(mktemp -p "$state")
  cat >"$state/$1.yml" <<YML
version: 0.1
log: {level: info, formatter: json, accesslog: {disabled: true}}
storage: {filesystem: {rootdirectory: $state/storage-$1}}
http: {addr: 127.0.0.1:0}
YML
  spawn "$log" bin/registry serve "$state/$1.yml"
  await "registry $1" "$log" grep -q 'listening on' "$log"
  host=$(sed -nE 's/.*listening on ([0-9.:]+).*/\1/p' "$log" | head -n 1)
}

# stop_last stops what was started last.
stop_last() {
  local pid=${pids[-1]}
  unset 'pids[-1]'
  kill "$pid" && wait "$pid" 2>/dev/null || true
}

# nothing_of_the_user makes sure that nothing of the user's is read or written.
nothing_of_the_user() {
  export HOME=$state/home DOCKER_CONFIG=$state/docker BUILDX_CONFIG=$state/buildx OTEL_TRACES_EXPORTER=none
  mkdir -p "$HOME" "$DOCKER_CONFIG"
  echo '{}' >"$DOCKER_CONFIG/config.json"
}

# measured COMMAND...: runs it and prints "milliseconds resident-megabytes".
measured() {
  "$state/benchkit" run "$@" 2>"$state/tool.log" || { cat "$state/tool.log" >&2; return 1; }
}

# median of the numbers on stdin.
median() { sort -n | awk '{ v[NR] = $1 } END { print v[int((NR + 1) / 2)] }'; }

failed=0
# promise WHAT CONDITION: CONDITION is an expression of awk.
promise() {
  if awk "BEGIN { exit !($2) }"; then echo "  holds: $1"; else echo "  BROKEN: $1" && failed=1; fi
}
