#!/usr/bin/env bash
# Installs the Debian packages that `make test` and `make run` need and that are missing. This is the only list of them.
# On other systems it names the missing ones and fails.
#
# Usage: scripts/need.sh [PACKAGE …]   all packages of the list, or the named ones only
set -euo pipefail
# Debian keeps some of these programs in folders that an account without rights does not search.
PATH=$PATH:/usr/sbin:/sbin

# Each package, and a command that succeeds where its files are there.
declare -A probes=(
	[adduser]='command -v adduser'                                                # the Debian package of Cogwork
	[ca-certificates]='test -e /etc/ssl/certs/ca-certificates.crt'                # the Debian package of Cogwork
	[chromium-headless-shell]='command -v chromium-headless-shell'                # tests of the web UI
	[curl]='command -v curl'                                                      # make run
	[dovecot-imapd]='test -x /usr/lib/dovecot/imap'                                 # mail over IMAP
	[e2fsprogs]='command -v mkfs.ext4'                                            # faults: a disk that fails
	[fonts-dejavu-core]='test -d /usr/share/fonts/truetype/dejavu'                # tests of the web UI
	[gcc]='command -v cc'                                                         # SQLite, zstd, QuickJS; the linker
	[iproute2]='command -v ip'                                                    # faults: a network that fails
	[libc6-dev]='test -e /usr/include/stdio.h'                                    # SQLite, zstd, QuickJS
	[libfaketime]='compgen -G "/usr/lib/*/faketime/libfaketimeMT.so.1"'           # a wrong clock
	[mariadb-server]='command -v mariadbd'                                        # statements to MySQL and MariaDB
	[openssh-server]='test -x /usr/sbin/sshd'                                      # files over SSH
	[openssl]='command -v openssl'                                                # a certificate for the proxies
	[pgbouncer]='command -v pgbouncer'                                            # faults: a pooler that fails
	[postgresql]='compgen -G "/usr/lib/postgresql/*/bin/postgres"'                # the store on a server
	[python3-venv]='python3 -c "import ensurepip, venv"'                          # checking tools from PyPI
	[rabbitmq-server]='compgen -G "/usr/lib/rabbitmq/lib/*/sbin/rabbitmq-server"'  # messages of AMQP
	[redis-server]='command -v redis-server'                                      # messages of Redis
	[strace]='command -v strace'                                                  # faults: system calls that fail
	[systemd]='command -v systemd-analyze'                                        # the systemd unit
	[valgrind]='command -v valgrind'                                              # counted instructions
)

packages=("$@")
[ $# -gt 0 ] || mapfile -t packages < <(printf '%s\n' "${!probes[@]}" | sort)
missing=()
for package in "${packages[@]}"; do
	probe=${probes[$package]:-}
	[ -n "$probe" ] || { echo "need.sh: \`$package\` is not in its list" >&2; exit 2; }
	eval "$probe" >/dev/null 2>&1 || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
	echo "install these first (Debian's names): ${missing[*]}" >&2
	exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "install these first, as root: apt-get install ${missing[*]}" >&2; exit 1; }
	as_root=(sudo)
fi
echo "installing Debian packages: ${missing[*]}" >&2
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
