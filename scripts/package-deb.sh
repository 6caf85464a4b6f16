#!/usr/bin/env bash
# Makes a Debian package of a built program: scripts/package-deb.sh BINARY VERSION ARCHITECTURE FOLDER
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

binary=$1 version=$2 architecture=$3 out=$4
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 0755 "$root"

install -D -m 0755 "$binary" "$root/usr/bin/cogwork"
install -D -m 0755 ops/backup/drill.sh "$root/usr/bin/cogwork-backup"
for unit in ops/systemd/cogwork.service ops/backup/cogwork-backup.service ops/backup/cogwork-backup.timer; do
	install -D -m 0644 "$unit" "$root/lib/systemd/system/${unit##*/}"
done
install -D -m 0640 ops/debian/default "$root/etc/default/cogwork"
# The page names the commands; each of them describes itself.
install -D -m 0644 ops/debian/cogwork.1 "$root/usr/share/man/man1/cogwork.1"
gzip -n -9 "$root/usr/share/man/man1/cogwork.1"
install -D -m 0644 ops/debian/completions/cogwork.bash "$root/usr/share/bash-completion/completions/cogwork"
install -D -m 0644 ops/debian/completions/_cogwork "$root/usr/share/zsh/vendor-completions/_cogwork"
install -D -m 0644 ops/debian/completions/cogwork.fish "$root/usr/share/fish/vendor_completions.d/cogwork.fish"
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
