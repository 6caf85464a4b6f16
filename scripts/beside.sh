#!/usr/bin/env bash
# Runs targets of the Makefile side by side, prints the output of each when it has ended, and fails if one of them fails.
# Usage: scripts/beside.sh TARGET…
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."
logs=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$logs"' EXIT
declare -A pids
for target in "$@"; do
  "${MAKE:-make}" --no-print-directory "$target" >"$logs/$target" 2>&1 &
  pids[$target]=$!
done
failed=()
for target in "$@"; do
  wait "${pids[$target]}" || failed+=("$target")
  echo "== $target"
  cat "$logs/$target"
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
