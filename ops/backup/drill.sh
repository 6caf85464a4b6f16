#!/usr/bin/env bash
# Makes a backup, restores it elsewhere and compares both: a backup that was never restored is no backup. The daemon can run.
#
#   drill.sh BACKUPS [COGWORK OPTION …]
#   drill.sh /var/backups/cogwork --data-dir /var/lib/cogwork
#
# The backup stays as BACKUPS/<time>, the restored store is deleted. The newest KEEP backups are kept (14). Set COGWORK to the
# program if it is not in PATH. It exits with 1, and keeps everything, if a step fails.
set -euo pipefail

cogwork=${COGWORK:-cogwork}
keep=${KEEP:-14}
backups=${1:?name the folder of the backups}
shift
mkdir -p "$backups"
backups=$(realpath "$backups")
backup=$backups/$(date -u +%Y%m%dT%H%M%SZ)
drill=$(mktemp -d "$backups/drill.XXXXXX")

number() { sed -n "s/.*\"$1\": *\([0-9]*\).*/\1/p"; }

copied=$("$cogwork" backup "$backup" --json "$@")
# Flags come before settings and variables: the store that is in use is not touched.
place=(--dir "$drill" --data-dir "$drill/data" --store "$drill/data")
restored=$("$cogwork" restore "$backup" --json "${place[@]}" 2>/dev/null)
for part in executions blobs; do
	before=$(number "$part" <<<"$copied") after=$(number "$part" <<<"$restored")
	if [ "$before" != "$after" ]; then
		echo "the backup $backup has $before $part, and $after after the restore in $drill" >&2
		exit 1
	fi
done
# The restored store can be read.
"$cogwork" executions list --limit 1 --json "${place[@]}" >/dev/null
rm -rf "$drill"

# The names sort by time. Only complete backups have one.
find "$backups" -mindepth 1 -maxdepth 1 -type d -name '????????T??????Z' | sort -r | tail -n "+$((keep + 1))" | xargs -r rm -rf
echo "restored $backup: $(number executions <<<"$copied") executions, $(number blobs <<<"$copied") large values"
