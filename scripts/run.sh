#!/usr/bin/env bash
# Shows Cogwork at work: starts a small wiki on this machine and the daemon over the automations of this repository, waits
# until both are ready, says what to try, and ends both when you press Ctrl-C.
#
#   WIKI_PORT=7099 HOOKS_PORT=7070 ADMIN_PORT=7071   other ports; 0 takes a free one
#   DATA_DIR=.cogwork                                where the daemon keeps its data
#   BIN_DIR=path                                     programs that are built already, in place of a release build
# shellcheck disable=SC2317,SC2329 # What only a trap or `await` calls looks unreachable to it.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly WIKI_PORT=${WIKI_PORT:-7099} HOOKS_PORT=${HOOKS_PORT:-7070} ADMIN_PORT=${ADMIN_PORT:-7071}
readonly DATA_DIR=${DATA_DIR:-.cogwork}
readonly READY_WITHIN=30 # seconds

say() { printf '%s\n' "$*"; }
die() { printf 'run: %s\n' "$*" >&2; exit 1; }

scripts/need.sh curl
if [[ -n ${BIN_DIR:-} ]]; then
  bin=$BIN_DIR
else
  command -v cargo >/dev/null || die 'cargo is needed: https://rustup.rs'
  scripts/need.sh gcc libc6-dev
  if command -v npm >/dev/null; then
    make --no-print-directory ui
  else
    say 'Without Node.js 20 or later the web UI is one page that says so.'
  fi
  # As `make test` builds: the first build is shorter, and both share it.
  CARGO_INCREMENTAL=${CARGO_INCREMENTAL:-0} cargo build --locked --bin cogwork --bin wiki-simulator
  bin=${CARGO_TARGET_DIR:-./target}/debug
fi

work=$(mktemp -d)
wiki_pid='' daemon_pid=''

# Ends a program and waits for its end. It may have ended by itself.
end() {
  [[ -n $1 ]] || return 0
  kill -TERM "$1" 2>/dev/null || true
  wait "$1" 2>/dev/null || true
}

# The daemon first: what it still does may need the wiki.
finish() {
  trap - EXIT INT TERM HUP
  end "$daemon_pid"
  end "$wiki_pid"
  rm -rf -- "$work"
}
trap finish EXIT
trap 'say; say "Stopping …"; exit 0' INT TERM HUP

# Waits until the command given succeeds; gives up when the program of the given id has ended, or when it takes too long.
await() {
  local pid=$1 what=$2 deadline=$((SECONDS + READY_WITHIN))
  shift 2
  until "$@"; do
    kill -0 "$pid" 2>/dev/null || die "$what has ended; see what it said above"
    ((SECONDS < deadline)) || die "$what is not ready after $READY_WITHIN s"
    sleep 0.1
  done
}

listed() { "$bin/cogwork" list --json --data-dir "$DATA_DIR" 2>/dev/null; }

# The live address of an automation, out of the JSON of `cogwork list`: no other tool is needed for that.
live_url() {
  listed | tr -d '\n' | sed 's/{/\n{/g' | sed -n "s/.*\"id\": *\"$1\".*\"liveUrl\": *\"\\([^\"]*\\)\".*/\\1/p"
}

wiki_is_ready() { [[ -s $work/wiki ]]; }
daemon_is_ready() { listed | grep -q '"daemon": true' && curl -fsS -o "$work/ready" "$(hooks_url)/readyz" 2>/dev/null; }
hooks_url() { live_url page-from-webhook | sed 's|/trigger/.*||'; }

# `set -m` puts a program in a process group of its own, so that Ctrl-C reaches this script alone, which then ends both in
# order and once. It is off again at once, since it would hand the terminal to every command that follows.
set -m
"$bin/wiki-simulator" --listen "127.0.0.1:$WIKI_PORT" --quiet </dev/null >"$work/wiki" &
wiki_pid=$!
set +m
await "$wiki_pid" 'the wiki simulator' wiki_is_ready
wiki=$(head -n 1 "$work/wiki")

set -m
WIKI_HOST=$wiki COGWORK_SECRET_WIKI_TOKEN=demo-token COGWORK_OUTBOUND_ALLOW=127.0.0.1 \
  "$bin/cogwork" serve --data-dir "$DATA_DIR" \
  --hooks "127.0.0.1:$HOOKS_PORT" --admin "127.0.0.1:$ADMIN_PORT" </dev/null &
daemon_pid=$!
set +m
await "$daemon_pid" 'the daemon' daemon_is_ready

data_flag=''
[[ $DATA_DIR == .cogwork ]] || data_flag=" --data-dir $DATA_DIR"
cat <<TRY

Ready. The wiki simulator is at $wiki, the daemon beside it. In another terminal:

1. Make a wiki page; the caller waits, and the answer holds the page's id:
   curl -i -H 'Content-Type: application/json' -d '{"orderId": "$RANDOM", "quantity": 2}' $(live_url page-from-webhook)

2. Start an execution without waiting; the answer is its executionId:
   curl -i -H 'Content-Type: application/json' -d '{"title": "Hello $RANDOM", "text": "from curl"}' $(live_url page-from-webhook-async)

3. Have a person asked; the answer holds the address of the question, for a browser:
   curl -i -H 'Content-Type: application/json' -d '{"what": "A new printer", "amount": 1200}' $(live_url approval)

4. See all of them in the web UI; the link is for one browser, within 10 minutes:
   $("$bin/cogwork" ui --data-dir "$DATA_DIR")

5. See them in the terminal, or print another link:
   $bin/cogwork executions list$data_flag
   $bin/cogwork ui$data_flag

Then change a file in automations/ while this runs: what you save is in force at once. Ctrl-C ends both programs.
TRY

# An interrupted \`wait\` returns at once and the trap ends the script; otherwise the daemon has ended by itself.
code=0
wait "$daemon_pid" || code=$?
daemon_pid=''
die "the daemon has ended with exit code $code"
