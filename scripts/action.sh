#!/bin/bash
# The work of action.yml: turns its inputs, a JSON object in $INPUTS, into one
# "manifold build", and writes its outputs to $GITHUB_OUTPUT. Inputs are read as
# docker/build-push-action reads them: lists are lines, some of them parted by commas
# too, and what stands in double quotes may hold both.
set -euo pipefail

input() { jq -r --arg name "$1" '.[$name] // ""' <<<"$INPUTS"; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# items [,|lines|raw]: the items of the list on standard input, ended by NUL each:
# lines, with a comma those between commas too. With lines, quotes are nothing special;
# raw keeps blanks around an item.
items() {
  awk -v how="${1-}" '
    function item() {
      sub(/\r$/, "", field)
      if (how != "raw") gsub(/^[ \t]+|[ \t]+$/, "", field)
      if (field != "") printf "%s%c", field, 0
      field = ""
    }
    { text = text $0 "\n" }
    END {
      for (i = 1; i <= length(text); i++) {
        c = substr(text, i, 1)
        if (quoted && c == "\"" && substr(text, i + 1, 1) == "\"") { field = field c; i++ }
        else if (quoted && c == "\"") quoted = 0
        else if (quoted) field = field c
        else if (c == "\"" && how != "lines" && field ~ /^[ \t]*$/) { quoted = 1; field = "" }
        else if (c == "\n" || (how == "," && c == ",")) item()
        else field = field c
      }
      item()
    }'
}

args=(build --metadata-file "$work/metadata.json")

each() { # FLAG INPUT [HOW]: the flag once for every item
  local item
  while IFS= read -r -d '' item; do
    args+=("--$1" "$item")
  done < <(input "$2" | items "${3-}")
}
one() { # FLAG INPUT: the flag with its value, if there is one
  local value
  value=$(input "$2")
  [ -z "$value" ] || args+=("--$1" "$value")
}
on() { # FLAG INPUT: the flag, if the input is true
  case $(input "$2") in
    true | True | TRUE) args+=("--$1") ;;
    "" | false | False | FALSE) ;;
    *) echo "error: $2: want true or false" >&2 && exit 2 ;;
  esac
}
secret() { # ID VALUE: the value goes through a file of this run
  local file
  file=$(umask 077 && mktemp "$work/secret.XXXXXX")
  printf '%s' "$2" >"$file"
  args+=(--secret "id=$1,src=$file")
}

each add-host add-hosts ,
each allow allow ,
each annotation annotations
each attest attests
each build-arg build-args
each cache-from cache-from
each cache-to cache-to
each label labels
each no-cache-filter no-cache-filters ,
each output outputs lines
each ssh ssh ,
each tag tags ,
each ulimit ulimit
each node nodes
platforms=$(input platforms | items , | tr '\0' ',')
[ -z "$platforms" ] || args+=(--platform "${platforms%,}")
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

# Files have no image ID.
files='^[^=,]*$|(^|,)type=(local|tar)(,|$)'
if ! input outputs | items lines | tr '\0' '\n' | grep -qE "$files"; then
  args+=(--iidfile "$work/iid")
fi

# A pull request is built as it would be merged, all else at its commit.
server=${GITHUB_SERVER_URL:-https://github.com}
ref=${GITHUB_SHA-}
case ${GITHUB_REF-} in refs/pull/*) ref=$GITHUB_REF ;; esac
repository=$server/${GITHUB_REPOSITORY-}.git#$ref
context=$(input context)
context=${context//'{{defaultContext}}'/"$repository"}
: "${context:=$repository}"
while IFS= read -r -d '' named; do
  args+=(--build-context "${named//'{{defaultContext}}'/"$repository"}")
done < <(input build-contexts | items)

while IFS= read -r -d '' pair; do
  secret "${pair%%=*}" "${pair#*=}"
done < <(input secrets | items raw)
while IFS= read -r -d '' pair; do
  args+=(--secret "id=${pair%%=*},env=${pair#*=}")
done < <(input secret-envs | items ,)
while IFS= read -r -d '' pair; do
  args+=(--secret "id=${pair%%=*},src=${pair#*=}")
done < <(input secret-files | items)
token=$(input github-token)
if [ -n "$token" ] && [[ $context == "$repository"* ]] && ! input secrets | grep -q '^[" ]*GIT_AUTH_TOKEN'; then
  secret "GIT_AUTH_TOKEN.${server#*://}" "$token"
fi

manifold=$(input manifold)
if [ -z "$manifold" ] && ! manifold=$(command -v manifold); then
  # Later steps of the job find it too.
  bin=${RUNNER_TEMP:-$work}/manifold-bin
  (cd "$GITHUB_ACTION_PATH" && CGO_ENABLED=0 go build -trimpath -o "$bin/manifold" ./cmd/manifold) >&2
  manifold=$bin/manifold
  echo "$bin" >>"${GITHUB_PATH:-/dev/null}"
fi
"$manifold" "${args[@]}" "$context" >&2

metadata='{}'
[ ! -s "$work/metadata.json" ] || metadata=$(jq -c . "$work/metadata.json")
{
  echo "imageid=$(cat "$work/iid" 2>/dev/null || true)"
  echo "digest=$(jq -r '."containerimage.digest" // ""' <<<"$metadata")"
  echo "metadata<<MANIFOLD_METADATA"
  echo "$metadata"
  echo "MANIFOLD_METADATA"
} >>"$GITHUB_OUTPUT"
