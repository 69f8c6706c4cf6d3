#!/bin/bash
# Installs the Debian packages that the tests need, those of them that are
# missing. Needs root only if there are any.
set -euo pipefail

# program to look for, package that has it
needed=(
  make:make
  gcc:gcc
  git:git
  curl:curl
  jq:jq
  ip:iproute2
  ssh:openssh-client
  sshd:openssh-server
  runc:runc
  openssl:openssl
  skopeo:skopeo
  docker-registry:docker-registry
  # RUN steps for another processor
  qemu-aarch64-static:qemu-user-static
  # 62 MB, 15 seconds; the CLI of 20.10 is what "docker manifest" is compared with
  /usr/bin/docker:docker.io
)

export PATH="$PATH:/usr/sbin:/sbin"
missing=()
for entry in "${needed[@]}"; do
  command -v "${entry%%:*}" >/dev/null || missing+=("${entry#*:}")
done
# The race detector links against the C library.
[ -e /usr/include/stdlib.h ] || missing+=(libc6-dev)
((${#missing[@]})) || exit 0

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "the tests need these Debian packages: ${missing[*]}" >&2
  exit 1
fi
echo "installing: ${missing[*]}"
# Services would start with the installation and take ports from the tests.
if [ ! -e /usr/sbin/policy-rc.d ]; then
  printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
  chmod 755 /usr/sbin/policy-rc.d
  trap 'rm -f /usr/sbin/policy-rc.d' EXIT
fi
apt-get update -q
DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
