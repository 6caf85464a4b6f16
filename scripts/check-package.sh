#!/usr/bin/env bash
# Installs a Debian package over a copy of this machine's files, starts the daemon as its unit does, removes the package again,
# and checks that project and data stay. It needs root and an overlay file system; elsewhere it says so and does nothing.
#
#   scripts/check-package.sh cogwork_0.1.0_amd64.deb
set -euo pipefail

package=$(realpath "$1")
if [ -z "${INSIDE:-}" ]; then
	if [ "$(id -u)" -ne 0 ] || ! unshare --mount true 2>/dev/null || ! dpkg -s adduser ca-certificates >/dev/null 2>&1; then
		echo 'the installation of the package is not checked: that needs root, namespaces, adduser and ca-certificates' >&2
		exit 0
	fi
	INSIDE=1 exec unshare --mount --pid --fork --kill-child "$0" "$package"
fi

# A copy of the machine in memory: what the package changes is gone at the end, with this namespace and its processes.
layers=$(mktemp -d)
mount -t tmpfs tmpfs "$layers"
mkdir "$layers/upper" "$layers/work" "$layers/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$layers/upper,workdir=$layers/work" "$layers/root"
root=$layers/root
cp "$package" "$root/root/cogwork.deb"
mount -t proc proc "$root/proc"
mount --bind /dev "$root/dev"
# Without this folder the scripts of the package leave the service manager alone.
mount -t tmpfs tmpfs "$root/run"
inside() { chroot "$root" env PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }
fail() { echo "the package: $*" >&2; exit 1; }

inside dpkg -i /root/cogwork.deb >"$layers/log" 2>&1 || { cat "$layers/log" >&2; exit 1; }
inside getent passwd cogwork >/dev/null || fail 'its user is missing'
[ "$(inside stat -c '%U %a' /var/lib/cogwork)" = 'cogwork 700' ] || fail 'others can enter the data folder'

# As the unit starts it: its user, its environment, its program.
unit=$root/lib/systemd/system/cogwork.service
mapfile -t variables < <(sed -n 's/^Environment=//p' "$unit" | tr ' ' '\n')
read -ra program < <(sed -n 's/^ExecStart=//p' "$unit")
start() {
	# Each of these programs becomes the next one, so the process is the daemon.
	chroot "$root" setpriv --reuid cogwork --regid cogwork --clear-groups --no-new-privs --bounding-set -all --inh-caps -all \
		env -C /srv/cogwork "${variables[@]}" COGWORK_HOOKS=0 COGWORK_ADMIN=0 "${program[@]}" >>"$layers/daemon.log" 2>&1 &
	daemon=$!
	for _ in $(seq 300); do
		[ -f "$root/var/lib/cogwork/daemon.json" ] && return
		kill -0 "$daemon" 2>/dev/null || break
		sleep 0.1
	done
	cat "$layers/daemon.log" >&2
	fail 'the daemon does not start'
}
start
inside env "${variables[@]}" cogwork doctor --ready >/dev/null 2>&1 || fail 'the daemon is not ready'
# A second installation is an upgrade: settings and data stay.
echo 'COGWORK_LOG_FORMAT=json' >>"$root/etc/default/cogwork"
inside dpkg -i /root/cogwork.deb >"$layers/log" 2>&1 || { cat "$layers/log" >&2; exit 1; }
grep -q LOG_FORMAT "$root/etc/default/cogwork" || fail 'an upgrade takes the settings away'
kill -TERM "$daemon"
wait "$daemon" || fail 'the daemon does not stop in order'

inside dpkg -P cogwork >"$layers/log" 2>&1 || { cat "$layers/log" >&2; exit 1; }
[ -f "$root/var/lib/cogwork/cogwork.db" ] || fail 'its removal deletes the data'
[ -d "$root/srv/cogwork/automations" ] || fail 'its removal deletes the project'
[ ! -e "$root/usr/bin/cogwork" ] || fail 'its removal leaves the program'
