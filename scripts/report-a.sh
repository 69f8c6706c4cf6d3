#!/bin/bash
# Report A on its own topology: two hosts, each with sshd and a Docker Engine of
# its own (docker.io of Debian), a buildx builder with one docker-container node on
# each over ssh, and a registry that both reach. "buildx build" leaves a list per
# node, "manifold build" does not. Then the same with buildkitd straight over ssh,
# and over tcp with client certificates. The hosts are network and mount namespaces
# of this run; "make report-a" runs it, as root.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
export PATH=$root/bin:/usr/bin:/bin:/usr/sbin:/sbin:/usr/local/bin

for tool in dockerd docker sshd ssh ip unshare openssl docker-registry runc jq; do
  command -v "$tool" >/dev/null || { echo "report-a: $tool is missing" >&2; exit 1; }
done
[ "$(id -u)" = 0 ] || { echo "report-a: needs root" >&2; exit 1; }

work=$(mktemp -d /tmp/mra.XXXXXX)
net=mra$$ gate=10.213.7.1
declare -A at=([a]=10.213.7.11 [b]=10.213.7.12) platform=([a]=linux/amd64 [b]=linux/arm64)
pids=()
cleanup() {
  status=${1:-$?}
  for ((i = ${#pids[@]} - 1; i >= 0; i--)); do kill -KILL "${pids[i]}" 2>/dev/null || true; done
  wait 2>/dev/null || true
  for h in a b; do ip netns del "$net$h" 2>/dev/null || true; done
  ip link del "$net" 2>/dev/null || true
  if [ $status != 0 ]; then tail -n 15 "$work"/*.log >&2 || true; fi
  for m in $(awk -v w="$work" 'index($2, w) == 1 {print $2}' /proc/mounts | sort -r); do umount -l "$m" || true; done
  rm -rf "$work"
  exit $status
}
trap cleanup EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

say() { printf '\n== %s\n' "$*"; }
await() { # WHAT COMMAND...
  local what=$1
  shift
  for _ in $(seq 300); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
  echo "report-a: $what did not come up" >&2
  return 1
}

say "two hosts on a bridge, a registry at $gate"
ip link add "$net" type bridge
ip addr add "$gate/24" dev "$net"
ip link set "$net" up
ssh-keygen -q -t ed25519 -N '' -f "$work/key"
ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
mkdir -p "$work/bin"
printf '#!/bin/sh\nexec /usr/bin/ssh -F %s "$@"\n' "$work/ssh_config" >"$work/bin/ssh"
chmod 755 "$work/bin/ssh"
cat >"$work/ssh_config" <<CFG
IdentityFile $work/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
CFG
export PATH=$work/bin:$PATH

cat >"$work/registry.yml" <<CFG
version: 0.1
log: {level: error}
storage:
  filesystem: {rootdirectory: $work/registry}
http: {addr: "$gate:5000"}
CFG
docker-registry serve "$work/registry.yml" >"$work/registry.log" 2>&1 &
pids+=($!)
await registry curl -sf "http://$gate:5000/v2/"

openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=ca -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
certificate() { # NAME SUBJECT-ALTERNATIVE
  openssl req -newkey ed25519 -nodes -subj "/CN=$1" -keyout "$work/$1.key" -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -days 2 -out "$work/$1.pem" \
    -extfile <(echo "subjectAltName=$2") 2>/dev/null
}
certificate client DNS:client

printf '[registry."%s:5000"]\n  http = true\n' "$gate" >"$work/buildkitd.toml"
for h in a b; do
  dir=$work/$h
  certificate "host$h" "IP:${at[$h]}"
  mkdir -p "$dir/run" "$dir/data" "$dir/ssh"
  ip netns add "$net$h"
  ip link add "$net$h" type veth peer name eth0 netns "$net$h"
  ip link set "$net$h" master "$net" up
  ip -n "$net$h" addr add "${at[$h]}/24" dev eth0
  ip -n "$net$h" link set eth0 up
  ip -n "$net$h" link set lo up
  cat >"$dir/sshd_config" <<CFG
ListenAddress ${at[$h]}
HostKey $work/host_key
AuthorizedKeysFile $work/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
# SHLVL keeps the login shell from running what .bashrc has.
SetEnv SHLVL=1 PATH=$root/bin:/usr/bin:/bin:/usr/sbin:/sbin
CFG
  # A mount namespace gives the host a /run of its own, and with it the sockets
  # that docker and buildctl look for by themselves.
  cat >"$dir/boot" <<BOOT
mount --bind $dir/run /run
mkdir -p /run/sshd /run/buildkit
/usr/sbin/sshd -D -e -f $dir/sshd_config >$work/sshd-$h.log 2>&1 &
$root/bin/buildkitd --root $dir/buildkit --config $work/buildkitd.toml --containerd-worker=false \
  --oci-worker-snapshotter=native --oci-worker-platform ${platform[$h]} --addr unix:///run/buildkit/buildkitd.sock \
  --addr tcp://${at[$h]}:1234 --tlscacert $work/ca.pem --tlscert $work/host$h.pem --tlskey $work/host$h.key >$work/buildkitd-$h.log 2>&1 &
exec /usr/sbin/dockerd --data-root $dir/data --exec-root /run/docker --storage-driver vfs \
  --iptables=false --ip6tables=false --bridge=none >$work/dockerd-$h.log 2>&1
BOOT
  nsenter --net="/run/netns/$net$h" unshare --mount --pid --fork --kill-child --mount-proc sh "$dir/boot" &
  pids+=($!)
done
on() { # HOST COMMAND...
  local h=$1
  shift
  command ssh "root@${at[$h]}" "$@"
}
for h in a b; do
  await "sshd of $h" on "$h" true
  await "engine of $h" on "$h" docker version
done

say "a BuildKit image of the module's buildkitd and runc, in both engines"
image=$work/image
mkdir -p "$image/tmp" "$image/usr/bin" "$image/etc"
cp bin/buildkitd bin/buildctl "$(command -v runc)" "$image/usr/bin/"
ldd "$(command -v runc)" | grep -o '/[^ ]*' | while read -r lib; do
  mkdir -p "$image$(dirname "$lib")"
  cp -L "$lib" "$image$lib"
done
tar c -C "$image" . >"$work/image.tar"
for h in a b; do
  on "$h" "docker import -c 'ENTRYPOINT [\"/usr/bin/buildkitd\"]' -c 'ENV PATH=/usr/bin' - manifold.test/buildkit:1" <"$work/image.tar" >/dev/null
done

export DOCKER_CONFIG=$work/docker HOME=$work/home
mkdir -p "$DOCKER_CONFIG" "$HOME"
farm=yes
on a docker run --rm --privileged --network host manifold.test/buildkit:1 --version || farm=
[ -n "$farm" ] || echo "report-a: privileged containers do not run here: without the docker-container builder" >&2
[ -z "$farm" ] || say "docker buildx create --driver docker-container ssh://... twice"
for h in a b; do
  [ -n "$farm" ] || break
  append=()
  [ "$h" = a ] || append=(--append)
  buildx create --name farm --node "farm-$h" "${append[@]}" --driver docker-container \
    --driver-opt image=manifold.test/buildkit:1 --driver-opt network=host --platform "${platform[$h]}" \
    --buildkitd-config "$work/buildkitd.toml" --buildkitd-flags "--oci-worker-platform ${platform[$h]}" "ssh://root@${at[$h]}" >/dev/null
done

context=$work/context
mkdir "$context"
printf 'FROM scratch\nARG TARGETARCH\nCOPY hello /\nLABEL arch=$TARGETARCH\n' >"$context/Dockerfile"
echo report a >"$context/hello"
stored() { # REPOSITORY: "INDEXES IMAGES"
  local n=0 m=0 file
  for file in "$work/registry/docker/registry/v2/repositories/$1/_manifests/revisions/sha256"/*; do
    local digest
    digest=$(basename "$file")
    if jq -e '.manifests' "$work/registry/docker/registry/v2/blobs/sha256/${digest:0:2}/$digest/data" >/dev/null; then
      n=$((n + 1))
    else
      m=$((m + 1))
    fi
  done
  echo "$n $m"
}
expect() { # WHAT WANT GOT
  if [ "$2" != "$3" ]; then
    echo "report-a: $1: want $2, got $3" >&2
    exit 1
  fi
  echo "$1: $3"
}

say "buildx build"
if [ -z "$farm" ]; then # the same two nodes, over tcp
  for h in a b; do
    append=()
    [ "$h" = a ] || append=(--append)
    buildx create --name farm --node "farm-$h" "${append[@]}" --driver remote --platform "${platform[$h]}" \
      --driver-opt "cacert=$work/ca.pem,cert=$work/client.pem,key=$work/client.key" "tcp://${at[$h]}:1234" >/dev/null
  done
fi
buildx build --builder farm --platform linux/amd64,linux/arm64 --provenance=false -t "$gate:5000/buildx:1" -o type=image,push=true,registry.insecure=true "$context" >"$work/buildx.log" 2>&1
expect "buildx: indexes, images" "3 2" "$(stored buildx)"

say "manifold build"
try() { # REPOSITORY ARGS...
  local repo=$1
  shift
  manifold build "$@" --plain-http "$gate:5000" --platform linux/amd64,linux/arm64 --provenance=false \
    -t "$gate:5000/$repo:1" --push "$context" >"$work/$repo.log" 2>&1
  expect "$repo: indexes, images" "1 2" "$(stored "$repo")"
  manifold verify --plain-http "$gate:5000" --exact --platform linux/amd64,linux/arm64 "$gate:5000/$repo:1" >/dev/null
}
try builder --builder farm
try ssh --node "linux/amd64=ssh://root@${at[a]}" --node "linux/arm64=ssh://root@${at[b]}"
tls="cacert=$work/ca.pem&cert=$work/client.pem&key=$work/client.key"
try tcp --node "linux/amd64=tcp://${at[a]}:1234?$tls" --node "linux/arm64=tcp://${at[b]}:1234?$tls"
if manifold build --node "linux/amd64=tcp://${at[a]}:1234?cacert=$work/ca.pem" --node-timeout 2s --platform linux/amd64 \
  -t "$gate:5000/none:1" --push "$context" >"$work/none.log" 2>&1; then
  echo "report-a: a node took a client without a certificate" >&2
  exit 1
fi
manifold node ls --builder farm --plain-http "$gate:5000" --registry "$gate:5000"

say "a host goes down: it is named at once"
ip link set "${net}b" down
started=$SECONDS
if manifold build --node "linux/amd64=tcp://${at[a]}:1234?$tls" --node "linux/arm64=tcp://${at[b]}:1234?$tls" --node-timeout 3s \
  --plain-http "$gate:5000" --platform linux/amd64,linux/arm64 -t "$gate:5000/tcp:1" --push "$context" >"$work/down.log" 2>&1; then
  echo "report-a: a build without its node succeeded" >&2
  exit 1
fi
grep -o "error: node tcp://${at[b]}.*" "$work/down.log"
[ $((SECONDS - started)) -lt 20 ]
say "all is as it should be"
