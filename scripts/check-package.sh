#!/usr/bin/env bash
# Installs a Debian package over a copy of this machine's files, starts the daemon as its unit does, removes the package again,
# and checks that project and data stay. It needs root and an overlay file system; elsewhere it says so and does nothing.
#
#   scripts/check-package.sh cogwork_0.1.0_amd64.deb
set -euo pipefail
PATH=$PATH:/usr/sbin:/sbin

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

# The commands of the manual, typed by root outside of a project, mean the service.
typed() { inside sh -c 'cd /root && "$@"' sh "$@" >"$layers/log" 2>&1 || { cat "$layers/log" >&2; fail "\`$*\` does not work"; }; }
typed cogwork executions list
typed cogwork doctor --ready
typed cogwork backup /var/backups/cogwork/before
typed cogwork-backup /var/backups/cogwork
[ "$(inside stat -c '%U %a' /var/backups/cogwork/before)" = 'cogwork 700' ] || fail 'a backup of root is not the daemon'"'"'s'
[ "$(inside stat -c '%U:%G %a' /etc/default/cogwork)" = 'root:cogwork 640' ] || fail 'others can read the settings'
if inside setpriv --reuid nobody --regid nogroup --clear-groups sh -c 'cd /tmp && cogwork executions list' >"$layers/log" 2>&1; then
	fail 'somebody else gets a list of nothing'
fi
grep -q 'the settings of the service' "$layers/log" || fail 'somebody else is not told why'
for file in man/man1/cogwork.1.gz bash-completion/completions/cogwork zsh/vendor-completions/_cogwork fish/vendor_completions.d/cogwork.fish; do
	[ -s "$root/usr/share/$file" ] || fail "$file is missing"
done
# A second installation is an upgrade: settings and data stay.
echo 'COGWORK_LOG_FORMAT=json' >>"$root/etc/default/cogwork"
inside dpkg -i /root/cogwork.deb >"$layers/log" 2>&1 || { cat "$layers/log" >&2; exit 1; }
grep -q LOG_FORMAT "$root/etc/default/cogwork" || fail 'an upgrade takes the settings away'
kill -TERM "$daemon"
wait "$daemon" || fail 'the daemon does not stop in order'
typed cogwork restore /var/backups/cogwork/before --replace
[ -z "$(inside find /var/lib/cogwork ! -user cogwork)" ] || fail 'a restore by root leaves files that the daemon cannot write'
start
kill -TERM "$daemon"
wait "$daemon" || fail 'the daemon does not start on what was restored'

inside dpkg -P cogwork >"$layers/log" 2>&1 || { cat "$layers/log" >&2; exit 1; }
[ -f "$root/var/lib/cogwork/cogwork.db" ] || fail 'its removal deletes the data'
[ -d "$root/srv/cogwork/automations" ] || fail 'its removal deletes the project'
[ ! -e "$root/usr/bin/cogwork" ] || fail 'its removal leaves the program'
