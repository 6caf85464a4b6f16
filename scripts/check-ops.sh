#!/usr/bin/env bash
# Checks the files in ops/ with the tools that read them: promtool checks the alert rules, their tests, the scrape job, and the
# metrics of a real daemon; systemd-analyze the unit; dpkg-deb the package; kubernetes-validate and check-jsonschema, which
# are in the folder MANIFEST_TOOLS, the manifests. Takes the folder of the binaries.
set -euo pipefail

binaries=$(realpath "$1")
work=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon" 2>/dev/null || true; rm -rf "$work"' EXIT

# Takes programs out of Debian packages whose servers need not run. On other systems the programs have to be installed.
fetched=$binaries/../ops-programs
program() {
	local package=$1 path=$2
	if ! command -v apt-get >/dev/null; then
		PATH=$PATH:/usr/sbin command -v "${path##*/}" || { echo "this check needs ${path##*/}: install $package first" >&2; return 1; }
		return
	fi
	if [ ! -x "$fetched/$path" ]; then
		(cd "$work" && { apt-get download -qq "$package" || { as_root apt-get update -qq && apt-get download -qq "$package"; }; }) >&2
		mkdir -p "$fetched" && dpkg-deb -x "$work/${package}"_*.deb "$fetched"
	fi
	echo "$fetched/$path"
}
as_root() { if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi; }
promtool=$(program prometheus usr/bin/promtool)

"$promtool" check rules ops/prometheus/alerts.yaml >/dev/null
"$promtool" test rules ops/prometheus/alerts.test.yaml >/dev/null
touch "$work/token"
cp ops/prometheus/alerts.yaml "$work"
sed "s#/etc/prometheus/cogwork-token#$work/token#" ops/prometheus/prometheus.yaml >"$work/prometheus.yaml"
"$promtool" check config "$work/prometheus.yaml" >/dev/null

# Manifests, by the schemas that come with these tools.
"$MANIFEST_TOOLS/kubernetes-validate" --strict --quiet ops/kubernetes/*.yaml
"$MANIFEST_TOOLS/check-jsonschema" --quiet --builtin-schema vendor.compose-spec ops/container/compose.yaml ops/container/cluster.compose.yaml ops/opentelemetry/compose.yaml
"$MANIFEST_TOOLS/check-jsonschema" --quiet --builtin-schema vendor.gitlab-ci ops/ci/gitlab.yaml

"$binaries/cogwork" init "$work/project" >/dev/null 2>&1
"$binaries/cogwork" --dir "$work/project" serve --hooks 0 --admin 0 --public-metrics true >"$work/log" 2>&1 &
daemon=$!
for _ in $(seq 300); do
	[ -f "$work/project/.cogwork/daemon.json" ] && break
	kill -0 "$daemon" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
	sleep 0.1
done
admin=$(sed -n 's/.*"admin":"\([^"]*\)".*/\1/p' "$work/project/.cogwork/daemon.json")
# The linter knows the older text form only.
curl -fsS -H 'Accept: text/plain' "http://$admin/metrics" | "$promtool" check metrics
# The reverse proxies.
caddy=$(program caddy usr/bin/caddy)
HOME=$work "$caddy" validate --adapter caddyfile --config ops/proxy/Caddyfile >"$work/caddy" 2>&1 || { cat "$work/caddy" >&2; exit 1; }
cp ops/proxy/Caddyfile "$work/Caddyfile"
"$caddy" fmt "$work/Caddyfile" | cmp - ops/proxy/Caddyfile
# A request without a body waits for a daemon that is started meanwhile, as the manual says.
waits_for_daemon() {
	local upstream proxy started
	# A bound socket that does not listen keeps its port from others: the programs bind it too, since all of them reuse addresses.
	coproc ports { python3 -uc '
import socket, sys
held = [socket.socket() for _ in range(2)]
for one in held:
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind(("127.0.0.1", 0))
print(*(one.getsockname()[1] for one in held))
sys.stdin.read()'; }
	read -r upstream proxy <&"${ports[0]}"
	{
		printf '{\n\tadmin off\n\tauto_https off\n}\nhttp://127.0.0.1:%s {\n' "$proxy"
		sed -n '/^\treverse_proxy 127.0.0.1:7070/,/^\t}/p' ops/proxy/Caddyfile | sed "s/127.0.0.1:7070/127.0.0.1:$upstream/"
		echo '}'
	} >"$work/Caddyfile"
	HOME=$work "$caddy" run --adapter caddyfile --config "$work/Caddyfile" >"$work/caddy" 2>&1 &
	started=$!
	for _ in $(seq 100); do
		curl -s --max-time 0.1 -o /dev/null "http://127.0.0.1:$proxy/" || [ $? = 28 ] && break
		sleep 0.1
	done
	curl -s --max-time 30 -o /dev/null -w '%{http_code}' "http://127.0.0.1:$proxy/healthz" >"$work/answer" &
	local asked=$!
	"$binaries/cogwork" init "$work/second" >/dev/null 2>&1
	"$binaries/cogwork" --dir "$work/second" serve --hooks "$upstream" --admin 0 >/dev/null 2>&1 &
	local second=$!
	wait "$asked" || true
	# shellcheck disable=SC2154 # Set by `coproc`.
	kill "$second" "$started" "$ports_PID"
	wait "$second" "$started" 2>/dev/null || true
	[ "$(cat "$work/answer")" = 200 ] || { cat "$work/caddy" >&2; echo 'Caddy does not wait for the daemon' >&2; exit 1; }
}
waits_for_daemon
nginx=$(program nginx usr/sbin/nginx)
openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=test -keyout "$work/test.key" -out "$work/test.pem" 2>/dev/null
# The test binds what the file listens on, and only root may have port 443.
sed "s#/etc/ssl/cogwork/[a-z]*#$work/test#; s#listen 443#listen unix:$work/nginx.socket#" ops/proxy/nginx.conf >"$work/site.conf"
temporary=$(for kind in client_body proxy fastcgi uwsgi scgi; do echo "${kind}_temp_path $work/$kind;"; done)
echo "pid $work/pid; events {} http { access_log off; $temporary include $work/site.conf; }" >"$work/nginx.conf"
"$nginx" -t -q -e stderr -c "$work/nginx.conf"

# The drill: a backup beside the running daemon, restored and compared; a second one leaves as many as it is to keep.
drill() { COGWORK=$binaries/cogwork KEEP=1 ops/backup/drill.sh "$work/backups" --dir "$work/project"; }
"$binaries/cogwork" --dir "$work/project" start hello >/dev/null 2>&1
drill | grep -q ': 1 executions, 0 large values$'
sleep 1.1 # The names of backups have seconds.
drill >/dev/null
[ "$(find "$work/backups" -mindepth 1 | grep -c '/cogwork.db$')" = 1 ] || { echo 'the drill keeps too much' >&2; exit 1; }

# The unit: it is valid, and exposes little.
ln -s "$binaries/cogwork" "$work/program" # Its path has no spaces.
sed "s#/usr/bin/cogwork#$work/program#; /^User=/d; /^Group=/d" ops/systemd/cogwork.service >"$work/cogwork.service"
systemd-analyze verify --man=no "$work/cogwork.service"
systemd-analyze security --offline=yes --no-pager --threshold=20 ops/systemd/cogwork.service >"$work/security" ||
	{ tail -n 1 "$work/security" >&2; exit 1; }
ln -s "$PWD/ops/backup/drill.sh" "$work/drill"
sed "s#/usr/bin/cogwork-backup#$work/drill#; /^User=/d; /^Group=/d" ops/backup/cogwork-backup.service >"$work/cogwork-backup.service"
cp ops/backup/cogwork-backup.timer "$work"
systemd-analyze verify --man=no "$work/cogwork-backup.service" "$work/cogwork-backup.timer"
systemd-analyze security --offline=yes --no-pager --threshold=20 ops/backup/cogwork-backup.service >"$work/security" ||
	{ tail -n 1 "$work/security" >&2; exit 1; }

# The Debian package has the program, which runs, and scripts that a shell can read.
if command -v dpkg-deb >/dev/null; then
	scripts/package-deb.sh "$binaries/cogwork" 0.0.0 "$(dpkg --print-architecture)" "$work/deb" >/dev/null
	dpkg-deb -x "$work"/deb/cogwork_*.deb "$work/package"
	dpkg-deb -e "$work"/deb/cogwork_*.deb "$work/control"
	for script in postinst prerm postrm; do sh -n "$work/control/$script"; done
	"$work/package/usr/bin/cogwork" version >/dev/null
	test -f "$work/package/lib/systemd/system/cogwork.service"
	scripts/check-package.sh "$work"/deb/cogwork_*.deb
fi
echo 'ops: rules, scrape job, metrics, manifests, proxies, backup drill, unit and package are right'
