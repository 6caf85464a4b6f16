#!/usr/bin/env bash
# Makes a Debian package of a built program: scripts/package-deb.sh BINARY VERSION ARCHITECTURE FOLDER
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

binary=$1 version=$2 architecture=$3 out=$4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

install -D -m 0755 "$binary" "$root/usr/bin/cogwork"
install -D -m 0644 ops/systemd/cogwork.service "$root/lib/systemd/system/cogwork.service"
install -D -m 0644 ops/debian/default "$root/etc/default/cogwork"
install -D -m 0644 ops/debian/copyright "$root/usr/share/doc/cogwork/copyright"
for file in README.md CHANGELOG.md; do
	install -D -m 0644 "$file" "$root/usr/share/doc/cogwork/$file"
	gzip -n -9 "$root/usr/share/doc/cogwork/$file"
done
cp -R ops/prometheus ops/grafana ops/proxy ops/backup ops/ci "$root/usr/share/doc/cogwork/"

mkdir "$root/DEBIAN"
echo /etc/default/cogwork >"$root/DEBIAN/conffiles"
for script in postinst prerm postrm; do install -m 0755 "ops/debian/$script" "$root/DEBIAN/$script"; done
sed -e "s/@VERSION@/$version/" -e "s/@ARCHITECTURE@/$architecture/" \
	-e "s/@SIZE@/$(du -sk --apparent-size "$root" | cut -f1)/" ops/debian/control >"$root/DEBIAN/control"
(cd "$root" && find usr lib etc -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum >DEBIAN/md5sums)
find "$root" -type d -exec chmod 0755 {} +
mkdir -p "$out"
dpkg-deb --root-owner-group -Zgzip -z6 --build "$root" "$out/cogwork_${version}_${architecture}.deb"
