#!/usr/bin/env bash
# Builds the files of a release for one target into target/release-files: an archive, a Debian package and an SBOM, each with
# its checksum in SHA256SUMS.
#
#   scripts/release.sh [x86_64-unknown-linux-gnu|aarch64-unknown-linux-gnu]
#
# The other architecture is cross-compiled: that needs the C compiler of Debian's `gcc-aarch64-linux-gnu` (or `gcc-x86-64-linux-gnu`)
# and the standard library of the target, which rustup downloads unless the toolchain has it.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
target=${1:-$host}
case $target in
x86_64-unknown-linux-gnu) architecture=amd64 machine=x86_64 ;;
aarch64-unknown-linux-gnu) architecture=arm64 machine=aarch64 ;;
*) echo "there are no releases for $target" >&2; exit 1 ;;
esac
# As cargo and the Makefile have it.
folder=${CARGO_TARGET_DIR:-target}
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
# A reproducible archive: no owner, sorted, the time of the commit.
pack() { tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$1" -c "$2" | gzip -n -9 >"$3"; }

make ui book
if [ "$target" != "$host" ]; then
	compiler=$machine-linux-gnu-gcc
	command -v "$compiler" >/dev/null || { echo "cross-compiling needs $compiler: install gcc-${machine/_/-}-linux-gnu" >&2; exit 1; }
	compgen -G "$(rustc --print target-libdir --target "$target")/libstd-*.rlib" >/dev/null || rustup target add "$target"
	variable=${target//-/_}
	export "CC_$variable=$compiler" "CARGO_TARGET_${variable^^}_LINKER=$compiler"
fi
cargo build --profile dist --locked --target "$target" -p cli --features full --bin cogwork
binary=$folder/$target/dist/cogwork
if readelf --sections --wide "$binary" | grep -q ' \.symtab '; then
	echo "$binary has symbols: the profile \`dist\` does not strip it" >&2
	exit 1
fi

out=$folder/release-files
name=cogwork-$version-$machine-linux
rm -rf "$out" && mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The archive: the program, the licences, the files for operation, completions if this machine can run the program.
mkdir -p "$work/$name"
install -m 0755 "$binary" "$work/$name/cogwork"
cp LICENSE-APACHE LICENSE-MIT README.md CHANGELOG.md "$work/$name"
cp -R ops "$work/$name/ops"
pack "$work" "$name" "$out/$name.tar.gz"

scripts/package-deb.sh "$binary" "$version" "$architecture" "$out"

cargo cyclonedx --version >/dev/null 2>&1 || cargo install --locked cargo-cyclonedx --version 0.5.9
cargo cyclonedx --format json --target "$target" --manifest-path crates/cli/Cargo.toml --override-filename "$name.cdx"
# The crates of the workspace are named by their path in it, not on this machine.
sed "s#path+file://$PWD/#path+file:///#g" "crates/cli/$name.cdx.json" >"$out/$name.cdx.json"
# It writes one beside each manifest of the workspace.
find crates tests bench manual -name "$name.cdx.json" -delete

(cd "$out" && sha256sum -- * >SHA256SUMS)
ls -l "$out"
