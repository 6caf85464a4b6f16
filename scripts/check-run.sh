#!/usr/bin/env bash
# Does what `make run` tells people to do, command by command, and then presses Ctrl-C: all of it has to work.
#
# Usage: scripts/check-run.sh FOLDER-OF-THE-PROGRAMS
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

[[ $# -eq 1 && -x $1/cogwork && -x $1/wiki-simulator ]] || {
  printf 'usage: scripts/check-run.sh FOLDER, with cogwork and wiki-simulator in it: cargo build --workspace --bins\n' >&2
  exit 2
}
readonly READY_WITHIN=60 # seconds

work=$(mktemp -d)
run_pid=''
finish() {
  [[ -z $run_pid ]] || { kill -TERM "$run_pid" 2>/dev/null || true; wait "$run_pid" 2>/dev/null || true; }
  rm -rf -- "$work"
}
trap finish EXIT
fail() {
  printf 'check-run: %s\n--- what make run said:\n' "$1" >&2
  cat -- "$work/out" "$work/answer" >&2 2>/dev/null || true
  exit 1
}

BIN_DIR=$1 DATA_DIR=$work/data WIKI_PORT=0 HOOKS_PORT=0 ADMIN_PORT=0 scripts/run.sh >"$work/out" 2>&1 &
run_pid=$!
deadline=$((SECONDS + READY_WITHIN))
until grep -q '^Then change a file' "$work/out"; do
  kill -0 "$run_pid" 2>/dev/null || fail 'it ended before it was ready'
  ((SECONDS < deadline)) || fail "it was not ready after $READY_WITHIN s"
  sleep 0.1
done

# The commands as they stand there, by what they begin with.
command_of() { sed -n "s/^   \\(${1//\//\\/}.*\\)\$/\\1/p" "$work/out" | sed -n "${2}p"; }
try() {
  local line
  line=$(command_of "$1" "$2")
  [[ -n $line ]] || fail "it does not name command $2 that begins with $1"
  bash -c "$line" >"$work/answer" 2>"$work/said" || fail "this failed: $line"
}
expect() { grep -q -- "$1" "$work/answer" || fail "$2"; }

try curl 1
expect '^HTTP/1.1 201' 'the first command was not answered 201'
expect '"page":' 'the answer to the first command holds no page'
try curl 2
expect '^HTTP/1.1 200' 'the second command was not answered 200'
expect '"executionId":' 'the answer to the second command holds no executionId'
try curl 3
expect '^HTTP/1.1 202' 'the third command was not answered 202'
question=$(sed -n 's/.*"answerAt": *"\([^"]*\)".*/\1/p' "$work/answer")
[[ -n $question ]] || fail 'the answer to the third command holds no address'
curl -fsS -H 'Accept: text/html' "$question" >"$work/answer" || fail "the question cannot be opened: $question"
expect 'Spend 1200' 'the page does not hold the question'
try "$1/cogwork" 1
expect 'page-from-webhook' 'the list of executions does not hold them'
expect 'waits for an answer' 'the list of executions does not say what is waited for'
link=$(command_of 'http:' 1)
[[ $link == http://*/login#* ]] || fail 'it names no link to the web UI'
curl -fsS -H 'Content-Type: application/json' -d "{\"token\": \"${link##*#}\"}" "${link%%/login*}/api/v1/session" >"$work/answer" ||
  fail "the link begins no session: $link"
expect '"secret":' 'the session has no second secret'
try "$1/cogwork" 2
expect '/login#' 'cogwork ui prints no link'

kill -TERM "$run_pid"
code=0
wait "$run_pid" || code=$?
run_pid=''
[[ $code -eq 0 ]] || fail "it ended with exit code $code in place of 0"
printf 'make run does what it says\n'
