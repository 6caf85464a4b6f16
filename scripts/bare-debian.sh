#!/usr/bin/env bash
# Runs the commands of the README on a bare Debian: a root folder of its own with Rust, Node.js and Python and nothing else. A
# machine on which somebody works has programs, folders and settings that hide what the project does not install itself.
#
# Usage, as root: scripts/bare-debian.sh FOLDER [COMMAND …]     without a command: `make run` until it is ready, then `make test`
#
#   CLONE='/home/dev/my work/cogwork'   where the clone is in there
#   ACCOUNT=dev                         an account without rights in place of root; the packages are installed first
#   UMASK=077 LANG=tr_TR.UTF-8          other settings of the shell
#   TAKEN=1                             ports 7070 to 7099 are in use, and a PostgreSQL server of the machine runs
#
# FOLDER keeps the root, so that a second run needs less time; delete it for a fresh one. It needs mmdebstrap and some 15 GB.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

[ $# -ge 1 ] || { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo 'bare-debian: only root can change the root folder of a process' >&2; exit 1; }
folder=$(realpath -m -- "$1")
shift
root=$folder/root clone=${CLONE:-/root/cogwork} account=${ACCOUNT:-root}

if [ -z "${INSIDE:-}" ]; then
	command -v mmdebstrap >/dev/null || { echo 'bare-debian: install mmdebstrap first' >&2; exit 1; }
	if [ ! -d "$root/etc" ]; then
		mkdir -p "$folder"
		mmdebstrap --quiet --variant=minbase --include=ca-certificates,make,python3 bookworm "$root"
		useradd --root "$root" --create-home --shell /bin/bash dev
		# The commands below `/opt` are in PATH; `~/.cargo/bin` is not.
		cp -a "$(rustc --print sysroot)" "$root/opt/rust"
		mkdir -p "$root/opt/node/bin" "$root/opt/node/lib/node_modules"
		cp -L "$(command -v node)" "$root/opt/node/bin/node"
		cp -a "$(npm root --global)/npm" "$root/opt/node/lib/node_modules/npm"
		ln -s ../lib/node_modules/npm/bin/npm-cli.js "$root/opt/node/bin/npm"
		ln -s ../lib/node_modules/npm/bin/npx-cli.js "$root/opt/node/bin/npx"
	fi
	cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
	rm -rf -- "$root/source.git"
	git clone --quiet --bare . "$root/source.git"
	INSIDE=1 exec unshare --mount --mount-proc --pid --fork --kill-child "$0" "$folder" "$@"
fi

# The clone, made with git of this machine: the bare one needs none.
if [ ! -d "$root$clone/.git" ]; then
	mkdir -p "$root$clone"
	git clone --quiet "$root/source.git" "$root$clone"
else
	# Another account owns it since the first run, which git refuses without this.
	git=(git -c safe.directory="$root$clone" -C "$root$clone")
	"${git[@]}" fetch --quiet "$root/source.git" HEAD
	"${git[@]}" reset --quiet --hard FETCH_HEAD
fi
chown -R --reference="$root/home/dev" "$root/home/dev"
# A root folder that is a mount point of its own: `ip netns` cannot change how mounts propagate below another one.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"

# The certificate authorities of this machine, which may have one of a proxy.
authorities=/etc/ssl/certs/ca-certificates.crt
variables=(HOME="$(sed -n "s/^$account:.*:\(.*\):.*/\1/p" "$root/etc/passwd")" PATH=/opt/rust/bin:/opt/node/bin:/usr/local/bin:/usr/bin:/bin
	PIP_CERT="$authorities" NODE_EXTRA_CA_CERTS="$authorities" TERM=dumb ${LANG:+LANG="$LANG"})
as_root() { chroot "$root" env -i -C "$clone" "${variables[@]}" PATH="/opt/rust/bin:/opt/node/bin:/usr/sbin:/usr/bin:/sbin:/bin" "$@"; }
inside() { chroot --userspec="$account" "$root" env -i --default-signal=INT -C "$clone" "${variables[@]}" bash -c "umask ${UMASK:-022}; exec \"\$@\"" bash "$@"; }

[ "$account" = root ] || as_root scripts/need.sh
if [ -n "${TAKEN:-}" ]; then
	as_root scripts/need.sh postgresql
	as_root pg_ctlcluster 15 main start || true
	chroot "$root" python3 -c '
import socket, time
taken = [socket.create_server(("127.0.0.1", port)) for port in range(7070, 7100)]
time.sleep(86400)' &
fi
if [ $# -gt 0 ]; then
	inside "$@"
	exit
fi

ports=(HOOKS_PORT=7070)
[ -z "${TAKEN:-}" ] || ports=(HOOKS_PORT=8070 ADMIN_PORT=8071 WIKI_PORT=8099)
said=$(mktemp)
# A process group of its own, which an interrupt reaches as it does from a terminal.
set -m
inside env "${ports[@]}" make run > >(tee "$said") 2>&1 &
run=$!
set +m
until grep -q '^Then change a file' "$said"; do
	kill -0 "$run" 2>/dev/null || { echo 'bare-debian: make run has ended' >&2; exit 1; }
	sleep 1
done
kill -INT -- "-$run"
wait "$run" || true
inside make test
