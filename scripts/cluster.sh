#!/usr/bin/env bash
# Shows several daemons on one database: starts a PostgreSQL server in a scratch folder and three daemons behind it, kills one of
# them, shows how the others go on with its executions, says what else to try, and ends everything when you press Ctrl-C.
#
#   BIN_DIR=path   programs that are built already, in place of a build
#   ONCE=1         end after the demonstration
# shellcheck disable=SC2317,SC2329 # What only a trap or `await` calls looks unreachable to it.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly READY_WITHIN=60 # seconds
say() { printf '%s\n' "$*"; }
die() { printf 'cluster: %s\n' "$*" >&2; exit 1; }

scripts/need.sh curl postgresql
postgres=$(printf '%s\n' /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
if [[ -n ${BIN_DIR:-} ]]; then
	bin=$(cd -- "$BIN_DIR" && pwd)
else
	command -v cargo >/dev/null || die 'cargo is needed: https://rustup.rs'
	scripts/need.sh gcc libc6-dev
	if command -v npm >/dev/null; then make --no-print-directory ui; fi
	cargo build --locked --bin cogwork
	bin=$(cd -- "${CARGO_TARGET_DIR:-target}/debug" && pwd)
fi

work=$(mktemp -d)
declare -A daemons=()
# The server refuses to run as root.
as_server=()
if [[ $(id -u) -eq 0 ]]; then
	as_server=(setpriv --reuid 65534 --regid 65534 --clear-groups --)
	chown 65534 "$work"
	chmod 755 "$work"
fi

finish() {
	trap - EXIT INT TERM HUP
	local name
	for name in "${!daemons[@]}"; do kill -TERM "${daemons[$name]}" 2>/dev/null || true; done
	for name in "${!daemons[@]}"; do wait "${daemons[$name]}" 2>/dev/null || true; done
	"${as_server[@]}" "$postgres/pg_ctl" stop -s -m fast -D "$work/database" 2>/dev/null || true
	rm -rf -- "$work"
}
trap finish EXIT
trap 'say; say "Stopping …"; exit 0' INT TERM HUP

# Waits until the command given succeeds.
await() {
	local what=$1 deadline=$((SECONDS + READY_WITHIN))
	shift
	until "$@"; do
		((SECONDS < deadline)) || die "$what did not happen within $READY_WITHIN s; the daemons said: $(cat "$work"/*.log)"
		sleep 0.2
	done
}

"${as_server[@]}" "$postgres/initdb" --auth=trust --no-sync --no-locale --encoding=UTF8 --username=cogwork -D "$work/database" >"$work/initdb.log"
"${as_server[@]}" "$postgres/pg_ctl" start -s -w -D "$work/database" -l "$work/database/server.log" -o "-c listen_addresses='' -k $work"
socket=${work//\//%2F}
export COGWORK_STORE=postgres://cogwork@$socket/postgres
COGWORK_MASTER_KEY=$(head -c 32 /dev/urandom | base64)
export COGWORK_MASTER_KEY

mkdir -p "$work/project/automations" "$work/empty"
cat >"$work/project/automations/order.yaml" <<'YAML'
name: An order
trigger: {webhook: {}}
steps:
  - {id: received, set: {order: "${{ trigger.results.body.data.order }}"}}
  - {id: packed, wait: 4s}
  - {id: agreed, waitFor: {approval: {message: Send the order?, options: [send, cancel]}}}
  - {id: sent, set: {order: "${{ steps.received.results.order }}", answer: "${{ steps.agreed.results.option }}"}}
YAML

# Runs cogwork for one of the daemons.
of() {
	local name=$1
	shift
	"$bin/cogwork" "$1" "${@:2}" --dir "$work/project" --data-dir "$work/$name"
}
start() {
	"$bin/cogwork" serve --dir "$work/empty" --data-dir "$work/$1" --hooks 127.0.0.1:0 --admin 127.0.0.1:0 \
		--log-level warn >"$work/$1.log" 2>&1 </dev/null &
	daemons[$1]=$!
}
has_definitions() { [[ $(of "$1" nodes --json | grep -c '"deployment": 1') -eq 3 ]]; }
is_ready() { of "$1" list --json 2>/dev/null | grep -q '"daemon": true'; }
live_url() { of "$1" list --json | tr -d '\n' | sed -n 's/.*"liveUrl": *"\([^"]*\)".*/\1/p'; }
count_alive() { of "$1" nodes --json 2>/dev/null | grep -c '"dead": false' || true; }
are_alive() { [[ $(count_alive "$1") -eq $2 ]]; }
has_shards() { ! of "$1" nodes --json 2>/dev/null | grep -q '"shards": 0'; }
waits_for_answer() { of "$1" executions list 2>/dev/null | grep -q 'waits for an answer'; }
has_ended() { of "$1" executions list 2>/dev/null | grep -q 'succeeded'; }

for name in one two three; do start "$name"; done
for name in one two three; do await "the start of daemon $name" is_ready "$name"; done
await 'the joining of three daemons' are_alive one 3
await 'the division of the shards' has_shards one
of one push --note 'the first version' >"$work/push.log" 2>&1 || die "nothing was deployed: $(cat "$work/push.log")"
await 'the deployment on all daemons' has_definitions two
say 'Three daemons share one database, all alike, and run the definitions that were deployed to one of them:'
say
of two nodes
say
say 'An order reaches daemon one, which has its execution from now on:'
answer=$(curl -fsS -H 'Content-Type: application/json' -d '{"order": 17}' "$(live_url one)")
execution=$(sed -n 's/.*"executionId": *"\([^"]*\)".*/\1/p' <<<"$answer")
say "  $answer"
say
say 'Daemon one is killed. The others notice that it beats no more, which takes 10 seconds, and go on with its execution:'
kill -KILL "${daemons[one]}"
wait "${daemons[one]}" 2>/dev/null || true
unset 'daemons[one]'
await 'the takeover' are_alive two 2
await 'the execution' waits_for_answer two
say
of two nodes
of three executions list
say
say 'A person answers through daemon three, whichever has the execution:'
of three executions signal "$execution" --option send >/dev/null
await 'the end of the execution' has_ended two
of two executions list
[[ -z ${ONCE:-} ]] || exit 0

cat <<TRY

In another terminal:

1. Send orders to any daemon, see who has them, and answer:
   curl -H 'Content-Type: application/json' -d '{"order": 18}' $(live_url two)
   curl -H 'Content-Type: application/json' -d '{"order": 19}' $(live_url three)

2. Watch the daemons, in the terminal or in the web UI (the link is for one browser, within 10 minutes):
   $bin/cogwork nodes --dir $work/project --data-dir $work/two
   $(of two ui)

3. Stop daemon two (kill ${daemons[two]}) or kill it (kill -9 ${daemons[two]}), and ask the other one:
   $bin/cogwork nodes --dir $work/project --data-dir $work/three

4. Change $work/project/automations/order.yaml, deploy it to all daemons, and go back:
   $bin/cogwork push --dir $work/project --data-dir $work/three
   $bin/cogwork deployments rollback 1 --dir $work/project --data-dir $work/three

Ctrl-C ends the daemons and the server.
TRY
wait
