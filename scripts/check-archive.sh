#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# check-archive.sh - programs that are built from an archive of git's say its commit, those from another copy none.
set -euo pipefail
cd "$(dirname "$0")/.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# says WORDS FOLDER: what commit.sh says there.
says() {
	local said
	said=$("$2/scripts/commit.sh") || { echo "$2/scripts/commit.sh fails" && exit 1; }
	[[ $said == "$1" ]] || { echo "$2/scripts/commit.sh says \"$said\", not \"$1\"" && exit 1; }
}

mkdir -p "$tmp/copy/scripts"
sed "s/^archived=.*/archived='\$Format:%H\$'/" scripts/commit.sh >"$tmp/copy/scripts/commit.sh"
chmod +x "$tmp/copy/scripts/commit.sh"
says "" "$tmp/copy"
if [[ ! -e .git ]]; then
	echo "this is an archive, of commit $(scripts/commit.sh)"
	exit 0
fi
commit=$(git rev-parse --short=12 HEAD)
says "$commit" .
mkdir "$tmp/archive"
git archive HEAD | tar -x -C "$tmp/archive"
says "$commit" "$tmp/archive"
# Somebody else's repository around it, as a package's is.
git -C "$tmp" init -q
git -C "$tmp" -c user.name=x -c user.email=x commit -q --allow-empty -m x
says "$commit" "$tmp/archive"
says "" "$tmp/copy"
echo "archives say their commit: $commit"
