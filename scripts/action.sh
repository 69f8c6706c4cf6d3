#!/bin/bash
# The work of action.yml: turns its inputs, a JSON object in $INPUTS, into one
# "manifold build", and writes its outputs to $GITHUB_OUTPUT. Lists are lines, as in
# docker/build-push-action; platforms and tags may also be parted by commas.
set -euo pipefail

input() { jq -r --arg name "$1" '.[$name] // ""' <<<"$INPUTS"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
args=(build --metadata-file "$work/metadata.json" --iidfile "$work/iid")

each() { # FLAG INPUT: the flag once for every line
  local line
  while IFS= read -r line; do
    line=${line#"${line%%[![:space:]]*}"}
    [ -z "$line" ] || args+=("--$1" "$line")
  done < <(input "$2")
}
one() { # FLAG INPUT: the flag with its value, if there is one
  local value
  value=$(input "$2")
  [ -z "$value" ] || args+=("--$1" "$value")
}
on() { # FLAG INPUT: the flag, if the input is true
  [ "$(input "$2")" != true ] || args+=("--$1")
}

each add-host add-hosts
each allow allow
each annotation annotations
each attest attests
each build-arg build-args
each build-context build-contexts
each cache-from cache-from
each cache-to cache-to
each label labels
each no-cache-filter no-cache-filters
each output outputs
each ssh ssh
each ulimit ulimit
each node nodes
while IFS= read -r tag; do
  [ -z "$tag" ] || args+=(--tag "$tag")
done < <(input tags | tr ',' '\n' | tr -d ' \t')
platforms=$(input platforms | tr '\n' ',' | tr -d ' \t' | sed 's/,,*/,/g; s/^,//; s/,$//')
[ -z "$platforms" ] || args+=(--platform "$platforms")
one builder builder
one call call
one cgroup-parent cgroup-parent
one file file
one network network
one provenance provenance
one sbom sbom
one shm-size shm-size
one target target
on load load
on no-cache no-cache
on pull pull
on push push

n=0
while IFS= read -r secret; do # KEY=VALUE; the value goes through a file of this run
  [ -n "$secret" ] || continue
  n=$((n + 1))
  (umask 077 && printf '%s' "${secret#*=}" >"$work/secret$n")
  args+=(--secret "id=${secret%%=*},src=$work/secret$n")
done < <(input secrets)
while IFS= read -r secret; do
  [ -z "$secret" ] || args+=(--secret "id=${secret%%=*},env=${secret#*=}")
done < <(input secret-envs)
while IFS= read -r secret; do
  [ -z "$secret" ] || args+=(--secret "id=${secret%%=*},src=${secret#*=}")
done < <(input secret-files)

"$(input manifold)" "${args[@]}" "$(input context)" >&2

metadata='{}'
[ ! -s "$work/metadata.json" ] || metadata=$(jq -c . "$work/metadata.json")
{
  echo "imageid=$(cat "$work/iid" 2>/dev/null || true)"
  echo "digest=$(jq -r '."containerimage.digest" // ""' <<<"$metadata")"
  echo "metadata<<MANIFOLD_METADATA"
  echo "$metadata"
  echo "MANIFOLD_METADATA"
} >>"$GITHUB_OUTPUT"
