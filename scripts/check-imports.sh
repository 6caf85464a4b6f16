#!/usr/bin/env bash
# `cogwork import openapi` on public documents of different styles: each has to become a manifest that a project loads,
# whose examples are right, with at least as many actions as are written here.
#
# Usage: scripts/check-imports.sh COGWORK FOLDER-OF-@readme/oas-examples
set -euo pipefail

[[ $# -eq 2 && -x $1 && -d $2 ]] || {
  echo 'usage: scripts/check-imports.sh COGWORK FOLDER (make imports-check installs the documents)' >&2
  exit 2
}
cogwork=$(realpath -- "$1")
documents=$(realpath -- "$2")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"

# Document, name of the connector, actions: a version 2.0 with forms, a large 3.0, a 3.0 as YAML with variables in its
# address, a 3.1 with OAuth 2.0, a 3.1 with JSON Schema at its fullest.
while read -r document name actions; do
  "$cogwork" import openapi "$documents/$document" --name "$name" 2>"$name.said" || {
    cat -- "$name.said" >&2
    exit 1
  }
  found=$(sed -n 's/^wrote .* with \([0-9]*\) actions\{0,1\}$/\1/p' "$name.said")
  printf '%-24s %3s actions, %s left out\n' "$document" "$found" "$(grep -c 'left out' "$name.said" || true)"
  [[ $found -ge $actions ]] || {
    printf 'check-imports: %s: %s actions, and %s are expected\n' "$document" "$found" "$actions" >&2
    cat -- "$name.said" >&2
    exit 1
  }
done <<'DOCUMENTS'
2.0/json/petstore.json pets 20
3.0/json/star-trek.json starTrek 120
3.0/yaml/uspto.yaml patents 3
3.1/json/train-travel.json trains 7
3.1/json/readme.json hub 40
DOCUMENTS

# The next steps of a user: the examples are right, and an automation that names an action loads.
"$cogwork" connectors test >examples.txt
mkdir -p automations connections
cat >connections/myTrains.yaml <<'CONNECTION'
type: trains.oAuth2
with: {clientId: desk, clientSecret: "${{ secrets.trains }}", scopes: read}
CONNECTION
cat >automations/stations.yaml <<'AUTOMATION'
trigger: {manual: {}}
steps:
  - {id: stations, action: trains.getStations, connection: myTrains}
outputs: {first: "${{ steps.stations.results.data[0].name }}"}
AUTOMATION
"$cogwork" validate
