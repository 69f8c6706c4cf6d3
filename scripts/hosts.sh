# Functions for scripts that need hosts of their own: source it. A host is a
# network, mount and process namespace with sshd, a Docker Engine (docker.io of
# Debian) and a buildkitd. Everything lives inside one more namespace of each
# kind, so that nothing can outlast the script: not when it fails, and not when
# it is killed.

# enclose runs a script again in namespaces of its own and exits as it does:
# enclose SCRIPT. There, $work is a folder that is removed afterwards, and the
# environment has $PATH and $MANIFOLD only. Exit code 77 says that this machine
# lacks something.
enclose() {
  [ -z "${work:-}" ] || return 0
  local own=(unshare --net --mount --pid --fork --kill-child --mount-proc) status=0
  work=$(mktemp -d /tmp/mfh.XXXXXX) # the path of a socket has to be short
  trap disclose EXIT
  trap 'exit 143' TERM
  trap 'exit 130' INT
  "${own[@]}" true 2>"$work/why" || lacks "namespaces: $(cat "$work/why")"
  # Engines make a control group for every container, in every hierarchy.
  mkdir $(hierarchies) 2>"$work/why" || lacks "control groups to write to: $(cat "$work/why")"
  # A death signal of its own ties it to this shell, --kill-child the rest to it.
  setpriv --pdeathsig KILL "${own[@]}" env -i "work=$work" "PATH=$PATH" "MANIFOLD=${MANIFOLD:-}" "$1" &
  enclosed=$!
  wait "$enclosed" || status=$?
  enclosed=
  exit "$status"
}

# hierarchies prints the group of this run in each hierarchy of control groups.
hierarchies() {
  awk -v name="$(basename "$work")" '$3 ~ /^cgroup2?$/ {print $2 "/" name}' /proc/mounts
}

# disclose ends what enclose has started and removes what it leaves: a folder
# and, on the file system of the machine, control groups.
disclose() {
  local status=$? first
  trap - EXIT TERM INT
  if [ -n "${enclosed:-}" ]; then
    # When the first process of a namespace is gone, so are all others.
    first=$(cat "/proc/$enclosed/task/$enclosed/children" 2>/dev/null) || true
    kill -KILL ${first:-$enclosed} 2>/dev/null || true
    wait "$enclosed" 2>/dev/null || true
  fi
  find $(hierarchies) -depth -type d -exec rmdir {} + 2>/dev/null || true
  rm -rf "$work"
  exit "$status"
}

# lacks ends a script that cannot run on this machine: lacks WHAT
lacks() {
  echo "$(basename "$0"): this machine lacks $1" >&2
  exit 77
}

# allowed prints the capabilities that processes of this machine can have, as a
# JSON list.
allowed() {
  local names=(CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
    NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT SYS_PTRACE
    SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL
    SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE)
  local set i
  set=$((16#$(awk '$1 == "CapBnd:" {print $2}' /proc/self/status)))
  for i in "${!names[@]}"; do
    ((set >> i & 1)) && printf '"CAP_%s"\n' "${names[i]}"
  done | jq -cs .
}

# runtime writes $work/runtime, the engines' way to runc. Engine 20.10 asks for
# every capability that it knows when a container is privileged; where the
# bounding set lacks one of them, as in many virtual machines and CI runners, runc
# refuses the container: "unable to apply caps: operation not permitted".
runtime() {
  cat >"$work/runtime" <<SH
#!/bin/sh
set -eu
previous=
for argument; do
  file=
  case \$previous in
    --bundle | -b) file=\$argument/config.json ;;
    --process | -p) file=\$argument ;;
  esac
  if [ -f "\$file" ]; then
    jq --argjson allowed '$(allowed)' '
      def kept: if . then map_values(map(select(IN(\$allowed[])))) else . end;
      if has("process") then .process.capabilities |= kept else .capabilities |= kept end' "\$file" >"\$file.kept"
    mv "\$file.kept" "\$file"
  fi
  previous=\$argument
done
exec $(command -v runc) "\$@"
SH
  chmod 755 "$work/runtime"
}

# bridge makes the network that hosts are on, and gives this side an address:
# bridge ADDRESS
bridge() {
  # Sockets and process ids that programs keep below /run stay inside.
  mount -t tmpfs none /run
  ip link set lo up
  ip link add br0 type bridge 2>"$work/why" || lacks "a network bridge: $(cat "$work/why")"
  ip addr add "$1/24" dev br0
  ip link set br0 up
  ssh-keygen -q -t ed25519 -N '' -f "$work/key"
  ssh-keygen -q -t ed25519 -N '' -f "$work/host_key"
  openssl req -x509 -newkey ed25519 -nodes -days 2 -subj /CN=ca -keyout "$work/ca.key" -out "$work/ca.pem" 2>/dev/null
  # What is called ssh here knows the key; "docker" and "buildctl" endpoints run it.
  mkdir -p "$work/bin"
  printf '#!/bin/sh\nexec %s -F %s "$@"\n' "$(command -v ssh)" "$work/ssh_config" >"$work/bin/ssh"
  chmod 755 "$work/bin/ssh"
  cat >"$work/ssh_config" <<CFG
IdentityFile $work/key
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
CFG
  export PATH=$work/bin:$PATH
}

# certificate makes NAME.pem and NAME.key in $work: certificate NAME SUBJECT-ALTERNATIVE
certificate() {
  openssl req -newkey ed25519 -nodes -subj "/CN=$1" -keyout "$work/$1.key" -out "$work/$1.csr" 2>/dev/null
  openssl x509 -req -in "$work/$1.csr" -CA "$work/ca.pem" -CAkey "$work/ca.key" -days 2 -out "$work/$1.pem" \
    -extfile <(echo "subjectAltName=$2") 2>/dev/null
}

# host starts a host: host NAME ADDRESS PLATFORM. $work/buildkitd.toml is the
# configuration of its buildkitd, which listens on its usual socket and, for
# clients with a certificate, on port 1234.
host() {
  local name=$1 address=$2 platform=$3 dir=$work/$1
  certificate "host$name" "IP:$address"
  mkdir -p "$dir/run" "$dir/data" "$dir/ssh"
  ip netns add "$name"
  ip link add "veth$name" type veth peer name eth0 netns "$name"
  ip link set "veth$name" master br0 up
  ip -n "$name" addr add "$address/24" dev eth0
  ip -n "$name" link set eth0 up
  ip -n "$name" link set lo up
  cat >"$dir/sshd_config" <<CFG
ListenAddress $address
HostKey $work/host_key
AuthorizedKeysFile $work/key.pub
PermitRootLogin yes
StrictModes no
UsePAM no
PidFile none
# SHLVL keeps the login shell from running what .bashrc has.
SetEnv SHLVL=1 PATH=$(dirname "$(command -v buildctl)"):/usr/bin:/bin:/usr/sbin:/sbin
CFG
  cat >"$dir/daemon.json" <<CFG
{"runtimes": {"within": {"path": "$work/runtime"}}, "default-runtime": "within",
 "data-root": "$dir/data", "exec-root": "/run/docker",
 "iptables": false, "ip6tables": false, "bridge": "none",
 "exec-opts": ["native.cgroupdriver=cgroupfs"], "cgroup-parent": "/$(basename "$work")"}
CFG
  # A mount namespace gives the host a /run of its own, and with it the sockets
  # that docker and buildctl look for by themselves.
  cat >"$dir/boot" <<BOOT
mount --bind $dir/run /run
mkdir -p /run/sshd /run/buildkit
/usr/sbin/sshd -D -e -f $dir/sshd_config >$work/sshd-$name.log 2>&1 &
$(command -v buildkitd) --root $dir/buildkit --config $work/buildkitd.toml --containerd-worker=false \
  --oci-worker-snapshotter=native --oci-worker-platform $platform --addr unix:///run/buildkit/buildkitd.sock \
  --addr tcp://$address:1234 --tlscacert $work/ca.pem --tlscert $work/host$name.pem --tlskey $work/host$name.key >$work/buildkitd-$name.log 2>&1 &
exec dockerd --config-file $dir/daemon.json >$work/dockerd-$name.log 2>&1
BOOT
  nsenter --net="/run/netns/$name" unshare --mount --pid --fork --kill-child --mount-proc sh "$dir/boot" &
}

# on runs a command on a host, over ssh: on ADDRESS COMMAND...
on() {
  local address=$1
  shift
  ssh "root@$address" "$@"
}
