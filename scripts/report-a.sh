#!/bin/bash
# Report A on its own topology: two hosts, each with sshd and a Docker Engine, a
# buildx builder with one docker-container node on each over ssh, and a registry
# that all reach. "buildx build" leaves a list per node, "manifold build" does not.
# Then the same with buildkitd straight over ssh, over tcp with client certificates,
# and in the engines' containers.
#
# Needs root, bin/{buildkitd,buildctl,buildx} of "make buildkitd tools", bin/manifold
# or another that $MANIFOLD names, and programs that scripts/deps.sh installs. Exit
# code 77: this machine cannot run it, and why.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export PATH=$root/bin:$PATH:/usr/sbin:/sbin
. scripts/hosts.sh

for tool in buildkitd buildctl buildx dockerd docker sshd ssh ip unshare setpriv openssl curl docker-registry runc tini-static jq; do
  command -v "$tool" >/dev/null || lacks "$tool"
done
[ "$(id -u)" = 0 ] || lacks "root"
enclose "$root/scripts/report-a.sh"
manifold() { "${MANIFOLD:-$root/bin/manifold}" "$@"; }
trap '[ $? = 0 ] || tail -n 12 $(ls -t "$work"/*.log | head -n 3) >&2' EXIT

gate=10.213.7.1
declare -A at=([a]=10.213.7.11 [b]=10.213.7.12) platform=([a]=linux/amd64 [b]=linux/arm64)
both=linux/amd64,linux/arm64

say() { printf '\n== %s\n' "$*"; }
fail() {
  echo "report-a: $*" >&2
  exit 1
}
await() { # WHAT COMMAND...
  local what=$1
  shift
  for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  fail "$what did not come up"
}
expect() { # WHAT WANT GOT
  [ "$2" = "$3" ] || fail "$1: want $2, got $3"
  echo "$1: $3"
}
stored() { # REPOSITORY: "INDEXES IMAGES"
  local n=0 m=0 digest
  for digest in $(ls "$work/registry/docker/registry/v2/repositories/$1/_manifests/revisions/sha256"); do
    if jq -e '.manifests' "$work/registry/docker/registry/v2/blobs/sha256/${digest:0:2}/$digest/data" >/dev/null; then
      n=$((n + 1))
    else
      m=$((m + 1))
    fi
  done
  echo "$n $m"
}

say "two hosts on a bridge, a registry at $gate"
bridge "$gate"
runtime
certificate client DNS:client
cat >"$work/registry.yml" <<CFG
version: 0.1
log: {level: error}
storage:
  filesystem: {rootdirectory: $work/registry}
http: {addr: "$gate:5000"}
CFG
docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
printf '[registry."%s:5000"]\n  http = true\n' "$gate" >"$work/buildkitd.toml"
for h in a b; do host "$h" "${at[$h]}" "${platform[$h]}"; done
await registry curl -sf "http://$gate:5000/v2/"
for h in a b; do
  await "sshd of $h" on "${at[$h]}" true
  await "engine of $h" on "${at[$h]}" docker version
done

say "a BuildKit image of the module's buildkitd and runc, in both engines"
image=$work/image
mkdir -p "$image/tmp" "$image/usr/bin" "$image/etc"
cp "$(command -v buildkitd)" "$(command -v buildctl)" "$(command -v runc)" "$image/usr/bin/"
ldd "$(command -v runc)" | grep -o '/[^ ]*' | while read -r lib; do
  mkdir -p "$image$(dirname "$lib")"
  cp -L "$lib" "$image$lib"
done
tar c -C "$image" . >"$work/image.tar"
for h in a b; do
  on "${at[$h]}" "docker import -c 'ENTRYPOINT [\"/usr/bin/buildkitd\"]' -c 'ENV PATH=/usr/bin' $work/image.tar manifold.test/buildkit:1" >/dev/null
done

context=$work/context
mkdir "$context"
cat >"$context/Dockerfile" <<'DOCKERFILE'
FROM scratch
ARG TARGETARCH VERSION
COPY hello tini-static /
RUN ["/tini-static", "--version"]
LABEL arch=$TARGETARCH version=$VERSION
DOCKERFILE
echo report a >"$context/hello"
cp "$(command -v tini-static)" "$context/"
export DOCKER_CONFIG=$work/docker HOME=$work/home
mkdir -p "$DOCKER_CONFIG" "$HOME"

say "docker buildx create --driver docker-container ssh://... twice"
append=()
for h in a b; do
  buildx create --name farm --node "farm-$h" "${append[@]}" --driver docker-container --platform "${platform[$h]}" \
    --driver-opt image=manifold.test/buildkit:1 --driver-opt network=host --driver-opt "cgroup-parent=/$(basename "$work")" \
    --buildkitd-config "$work/buildkitd.toml" --buildkitd-flags "--oci-worker-platform ${platform[$h]}" "ssh://root@${at[$h]}" >/dev/null
  append=(--append)
done

try() { # REPOSITORY WANT-STORED ARGS...: builds it, "INDEXES IMAGES" are stored after it
  local repo=$1 want=$2
  shift 2
  manifold build --plain-http "$gate:5000" --platform "$both" "$@" -t "$gate:5000/$repo:1" -t "$gate:5000/$repo:latest" \
    --build-arg VERSION=1 --push "$context" >"$work/$repo.log" 2>&1
   expect "manifold, $repo: indexes, images" "$want" "$(stored "$repo")"
  manifold verify --plain-http "$gate:5000" --exact --platform "$both" "$gate:5000/$repo:1" >/dev/null
  manifold verify --plain-http "$gate:5000" --exact --platform "$both" "$gate:5000/$repo:latest" >/dev/null
}

booted() { # VERB REPOSITORY: the nodes whose boot was shown
  grep -o "$1 container buildx_buildkit_farm-." "$work/$2.log" | grep -o 'farm-.$' | sort -u | xargs
}

say "manifold build, which boots the builder"
try builder "1 2" --builder farm --provenance=false
expect "booted" "farm-a farm-b" "$(booted creating builder)"

say "a node whose container was stopped"
on "${at[b]}" docker stop --time 3 buildx_buildkit_farm-b >/dev/null
try attested "1 4" --builder farm
expect "booted" "farm-b" "$(booted starting attested)"

say "a node that cannot be booted"
buildx create --name broken --driver docker-container --driver-opt image=127.0.0.1:1/none "ssh://root@${at[a]}" >/dev/null
if manifold build --builder broken --plain-http "$gate:5000" -t "$gate:5000/none:1" --push "$context" >"$work/broken.log" 2>&1; then
  fail "a node without an image built something"
fi
expect "broken" "error: node broken0: boot at ssh://root@${at[a]}: Error response from daemon" \
  "$(grep -o '^error: .* from daemon' "$work/broken.log")"

say "buildx build, with the same builder"
beside() { # REPOSITORY WANT-STORED ARGS...
  local repo=$1 want=$2
  shift 2
  buildx build --platform "$both" "$@" -t "$gate:5000/$repo:1" --build-arg VERSION=1 --push "$context" >"$work/$repo.log" 2>&1
  expect "buildx, $repo: indexes, images" "$want" "$(stored "$repo")"
}
beside buildx "3 2" --builder farm --provenance=false
beside buildx-attested "3 4" --builder farm

say "nodes without a builder: buildkitd over ssh, tcp with certificates, containers of engines over ssh"
try ssh "1 2" --node "linux/amd64=ssh://root@${at[a]}" --node "linux/arm64=ssh://root@${at[b]}" --provenance=false
tls="cacert=$work/ca.pem&cert=$work/client.pem&key=$work/client.key"
tcp=(--node "linux/amd64=tcp://${at[a]}:1234?$tls" --node "linux/arm64=tcp://${at[b]}:1234?$tls")
try tcp "1 4" "${tcp[@]}"
containers=()
for h in a b; do
  docker context create "host-$h" --docker "host=ssh://root@${at[$h]}" >/dev/null 2>&1
  containers+=(--node "${platform[$h]}=docker-container://buildx_buildkit_farm-$h?context=host-$h")
done
try container "1 2" "${containers[@]}" --provenance=false
if manifold build --node "linux/amd64=tcp://${at[a]}:1234?cacert=$work/ca.pem" --node-timeout 2s --platform linux/amd64 \
  --plain-http "$gate:5000" -t "$gate:5000/none:1" --push "$context" >"$work/none.log" 2>&1; then
  fail "a node took a client without a certificate"
fi
manifold node ls --builder farm --plain-http "$gate:5000" --registry "$gate:5000"

say "a host goes down: it is named at once, and the tag stays"
digest() { manifold inspect --plain-http "$gate:5000" --digest "$gate:5000/$1"; }
before=$(digest builder:1)
ip link set vethb down
down() { # WHAT ARGS...: prints the error
  local log=$work/down-$1.log
  shift
  if manifold build --node-timeout 3s --plain-http "$gate:5000" --platform "$both" "$@" --build-arg VERSION=2 \
    -t "$gate:5000/builder:1" --push "$context" >"$log" 2>&1; then
    fail "a build without its node succeeded"
  fi
  grep '^error: ' "$log"
}
expect "tcp" "error: node tcp://${at[b]}:1234: no answer in" "$(down tcp "${tcp[@]}" | grep -o '.* no answer in')"
expect "docker-container" "error: node farm-b at ssh://root@${at[b]}: no answer in" "$(down farm --builder farm | grep -o '.* no answer in')"
expect "the tag" "$before" "$(digest builder:1)"
say "all is as it should be"
