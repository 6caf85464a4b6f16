#!/usr/bin/env bash
# Deploys a commit of the project on the machine of the daemon. Copy it to /usr/local/bin/cogwork-deploy and let the key of the
# build server run nothing else, in ~cogwork/.ssh/authorized_keys:
#
#   restrict,command="/usr/local/bin/cogwork-deploy /srv/cogwork" ssh-ed25519 AAAA… build
#
# The commit is checked in a folder of its own before the project folder changes. The daemon loads the changed files at once.
set -euo pipefail

project=${1:?name the project folder}
commit=${SSH_ORIGINAL_COMMAND:-${2:-}}
[[ $commit =~ ^[0-9a-f]{40}$ ]] || { echo 'give a commit: 40 hexadecimal digits' >&2; exit 2; }
cogwork=${COGWORK:-cogwork}

git -C "$project" fetch --quiet origin
git -C "$project" merge-base --is-ancestor "$commit" origin/main || { echo 'the commit is not on main' >&2; exit 1; }
trial=$(mktemp -d)
trap 'git -C "$project" worktree remove --force "$trial" 2>/dev/null; rm -rf "$trial"' EXIT
git -C "$project" worktree add --quiet --detach "$trial" "$commit"

"$cogwork" --dir "$trial" validate --strict
# The plan of the changes, for the log of the build.
"$cogwork" --dir "$trial" plan --data-dir "${COGWORK_DATA_DIR:-$project/.cogwork}"
git -C "$project" checkout --quiet --detach "$commit"
echo "deployed $commit"
