#!/usr/bin/env bash
# Installs Debian packages that checks need and that are not there yet. Elsewhere it says what to install.
set -euo pipefail

missing=()
for package in "$@"; do
	case $package in
	libfaketime) compgen -G '/usr/lib/*/faketime/libfaketimeMT.so.1' >/dev/null || missing+=("$package") ;;
	postgresql) compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=("$package") ;;
	pgbouncer) PATH=$PATH:/usr/sbin:/sbin command -v pgbouncer >/dev/null || missing+=("$package") ;;
	iproute2) PATH=$PATH:/usr/sbin:/sbin command -v ip >/dev/null || missing+=("$package") ;;
	e2fsprogs) PATH=$PATH:/usr/sbin:/sbin command -v mkfs.ext4 >/dev/null || missing+=("$package") ;;
	*) command -v "$package" >/dev/null || missing+=("$package") ;;
	esac
done
[ ${#missing[@]} -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
	echo "these checks need ${missing[*]}: install them first" >&2
	exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
	command -v sudo >/dev/null || { echo "these checks need ${missing[*]}: install them as root first" >&2; exit 1; }
	as_root=(sudo)
fi
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
